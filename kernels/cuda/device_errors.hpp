// SPDX-License-Identifier: Apache-2.0
// What a user reads when a device is missing, full or lost: one line each.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"

namespace cairn::kernels::cuda {

inline std::string device_name(int index) { return "cuda:" + std::to_string(index); }

inline std::string text_of_full_device(int index, const std::string& what, std::uint64_t needed,
                                       std::uint64_t free) {
  return device_name(index) + " has not the memory for " + what + ": " + format_bytes(needed) +
         " needed, " + format_bytes(free) + " free";
}

inline std::string text_of_full_host(const std::string& what, std::uint64_t needed) {
  return "the host cannot pin the memory for " + what + ": " + format_bytes(needed) + " needed";
}

inline std::string text_of_lost_device(const std::string& during, const std::string& reason) {
  return during + ": the device is lost (" + reason + "); the process has to be restarted";
}

inline std::string text_of_no_driver(const std::string& needed) {
  return "no CUDA device: there is no NVIDIA driver (libcuda.so.1 is not found); this build needs "
         "one for CUDA " +
         needed + " or later";
}

inline std::string text_of_old_driver(const std::string& driver, const std::string& needed) {
  return "no CUDA device: the NVIDIA driver is for CUDA " + driver + ", and this build needs " +
         needed + " or later";
}

inline std::string text_of_mixed_driver() {
  return "no CUDA device: the NVIDIA driver's library and its kernel module are of different "
         "versions (after an update: restart the machine)";
}

inline std::string text_of_unready_system() {
  return "no CUDA device: the system is not ready (with NVSwitch the fabric manager has to run)";
}

inline std::string text_of_no_device() {
  return "no CUDA device: the driver sees none (CUDA_VISIBLE_DEVICES may hide them)";
}

inline std::string text_of_wrong_index(int index, int count) {
  return "there is no " + device_name(index) + ": the last of " + std::to_string(count) + " is " +
         device_name(count - 1);
}

inline std::string text_of_old_architecture(int index, const std::string& architecture) {
  return device_name(index) + " is " + architecture + ", and the kernels need sm_75 or later";
}

inline std::string text_of_busy_device(int index) {
  return device_name(index) + " is busy or not available: another process may have it for itself";
}

inline std::string text_of_missing_code(int index, const std::string& architecture) {
  return device_name(index) + " is " + architecture + ", and this build has no code for it";
}

}  // namespace cairn::kernels::cuda
