// SPDX-License-Identifier: Apache-2.0
// The assembler finds the files through its include path, which CMake sets to this folder.
#define EMBED(symbol, name)                         \
  .global cairn_demo_##symbol##_begin;              \
  .global cairn_demo_##symbol##_end;                \
  .balign 64;                                       \
  cairn_demo_##symbol##_begin:;                     \
  .incbin name;                                     \
  cairn_demo_##symbol##_end:;                       \
  .byte 0;

  .section .rodata
EMBED(config, "config.json")
EMBED(generation, "generation_config.json")
EMBED(weights, "model.safetensors")
EMBED(tokenizer, "tokenizer.json")
EMBED(tokenizer_config, "tokenizer_config.json")
EMBED(template, "chat_template.jinja")
  .section .note.GNU-stack, "", @progbits
