// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/report_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/bytes.hpp"
#include "engine/simulate/report_chart.hpp"
#include "engine/simulate/report_layout.hpp"

namespace cairn::engine {
namespace {

/// A node that is shown: a claim, or a fork with claims in more than one child's subtree.
struct Shown {
  const PlanSnapshot::Node* node = nullptr;  // null: the empty prefix
  std::vector<std::size_t> children;         // ascending depth
  double served = 0;        // rate of all nodes whose nearest claim above or at is this one
  std::int64_t hidden = 0;  // nodes not shown whose nearest shown node above is this one
  bool claimed() const { return node && node->claim != Claim::none; }
};

/// The empty prefix first, parents before children.
class Outline {
 public:
  explicit Outline(const PlanSnapshot& snapshot) : snapshot_(snapshot) {
    shown.emplace_back();
    find_forks();
    std::vector<std::size_t> at(snapshot.nodes.size());       // the nearest shown node
    std::vector<std::size_t> serving(snapshot.nodes.size());  // the nearest claim, 0 without one
    for (std::size_t i = 0; i < snapshot.nodes.size(); ++i) {
      const PlanSnapshot::Node& node = snapshot.nodes[i];
      const bool top = node.parent < 0;
      at[i] = top ? 0 : at[static_cast<std::size_t>(node.parent)];
      serving[i] = top ? 0 : serving[static_cast<std::size_t>(node.parent)];
      if (is_shown(i)) {
        shown[at[i]].children.push_back(shown.size());
        at[i] = shown.size();
        if (node.claim != Claim::none) serving[i] = shown.size();
        shown.emplace_back().node = &node;
      } else {
        ++shown[at[i]].hidden;
      }
      shown[serving[i]].served += node.rate;
    }
    for (Shown& s : shown) {
      std::stable_sort(s.children.begin(), s.children.end(), [this](std::size_t a, std::size_t b) {
        return shown[a].node->depth < shown[b].node->depth;
      });
    }
  }

  std::vector<Shown> shown;

 private:
  void find_forks() {
    const std::size_t n = snapshot_.nodes.size();
    branches_.assign(n, 0);
    std::vector<bool> any(n, false);  // a claim at or below
    for (std::size_t i = n; i-- > 0;) {
      if (snapshot_.nodes[i].claim != Claim::none) any[i] = true;
      if (!any[i] || snapshot_.nodes[i].parent < 0) continue;
      const auto parent = static_cast<std::size_t>(snapshot_.nodes[i].parent);
      any[parent] = true;
      ++branches_[parent];
    }
  }
  bool is_shown(std::size_t i) const {
    return snapshot_.nodes[i].claim != Claim::none || branches_[i] > 1;
  }

  const PlanSnapshot& snapshot_;
  std::vector<std::int32_t> branches_;  // children with a claim at or below
};

std::string significant(double x) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), x, std::chars_format::general, 3).ptr;
  return {text.data(), end};
}

std::string describe(const Shown& s, double price) {
  std::string out;
  if (!s.node) {
    out = "the empty prefix: rate " + significant(s.served) + " served by no state";
  } else if (!s.claimed()) {
    out = std::to_string(s.node->depth) + " tokens: fork";
  } else {
    out = std::to_string(s.node->depth) + " tokens: " + to_string(s.node->kind);
    if (s.node->claim == Claim::pending) out += " (pending)";
    out += ", rate " + significant(s.served) + ", " + format_bytes(s.node->bytes) + ", value " +
           significant(s.node->loss_per_byte) + " a byte";
    if (price > 0) out += " (" + significant(s.node->loss_per_byte / price) + " x price)";
  }
  if (s.hidden > 0) out += ", folded nodes: " + std::to_string(s.hidden);
  return out;
}

std::string heading(const PlanSnapshot& snapshot, const Outline& outline) {
  const auto states = std::count_if(outline.shown.begin(), outline.shown.end(),
                                    [](const Shown& s) { return s.claimed(); });
  std::string out = "policy " + snapshot.policy + ": " + std::to_string(states) + " states, " +
                    format_bytes(snapshot.bytes);
  if (snapshot.budget > 0) out += " of " + format_bytes(snapshot.budget);
  return out + ", price " + significant(snapshot.price) + " a byte";
}

constexpr std::array kKindColours = {"#3b7dd8", "#2a9d5c", "#8a6fd1",
                                     "#c8468c", "#d9622b", "#d9453d"};
static_assert(kKindColours.size() == kStateKinds);

const char* colour_of(StateKind kind) { return kKindColours[static_cast<std::size_t>(kind)]; }

class PlanDrawing {
 public:
  PlanDrawing(const PlanSnapshot& snapshot, const Outline& outline)
      : snapshot_(snapshot), shown_(outline.shown) {
    rows_.assign(shown_.size(), 0);
    std::vector<std::size_t> open = {0};
    while (!open.empty()) {  // first child first, so that rows do not cross
      const std::size_t s = open.back();
      open.pop_back();
      if (shown_[s].node) deepest_ = std::max(deepest_, double(shown_[s].node->depth));
      rows_[s] = row_count_;
      if (shown_[s].children.empty()) ++row_count_;
      for (std::size_t i = shown_[s].children.size(); i-- > 0;) {
        open.push_back(shown_[s].children[i]);
      }
    }
  }

  std::string draw(const std::string& title) {
    const double height = kTop + kRow * static_cast<double>(row_count_ + 1);
    out_ += "<svg class=\"plan\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
            fixed(kWidth, 0) + " " + fixed(height, 0) + "\" role=\"img\" width=\"" +
            fixed(kWidth, 0) +
            "\" font-family=\"system-ui, sans-serif\" font-size=\"11\"><style>"
            ".plan{color:#222;background:#fff}.plan text{fill:currentColor}"
            "@media(prefers-color-scheme:dark){.plan{color:#ddd;background:#161616}}</style>";
    text(kLeft, 20, title, " font-size=\"14\" font-weight=\"600\"");
    legend();
    for (std::size_t s = 0; s < shown_.size(); ++s) edges(s);
    for (std::size_t s = 0; s < shown_.size(); ++s) mark(s);
    return std::move(out_) + "</svg>\n";
  }

 private:
  // Pixels.
  static constexpr double kWidth = 960, kLeft = 20, kTop = 66, kPlot = 640, kRow = 18;

  double x(const Shown& s) const { return kLeft + (s.node ? kPlot * s.node->depth / deepest_ : 0); }
  double y(std::size_t s) const { return kTop + kRow * static_cast<double>(rows_[s]); }

  void text(double at_x, double at_y, std::string_view content, const char* more = "") {
    out_ += "<text x=\"" + fixed(at_x, 1) + "\" y=\"" + fixed(at_y, 1) + "\"" + more + ">";
    append_markup(out_, content);
    out_ += "</text>";
  }

  void legend() {
    double at = kLeft + 5;
    for (int i = 0; i < kStateKinds; ++i) {
      const auto kind = static_cast<StateKind>(i);
      out_ += "<circle cx=\"" + fixed(at, 0) + "\" cy=\"38\" r=\"5\" fill=\"" + colour_of(kind) +
              "\"/>";
      text(at + 9, 42, to_string(kind));
      at += 100;
    }
    text(at, 42, "hollow: pending; to the right: tokens");
  }

  void edges(std::size_t s) {
    for (const std::size_t child : shown_[s].children) {
      out_ += "<path fill=\"none\" stroke=\"currentColor\" stroke-opacity=\".4\" d=\"M" +
              fixed(x(shown_[s]), 1) + " " + fixed(y(s), 1) + "V" + fixed(y(child), 1) + "H" +
              fixed(x(shown_[child]), 1) + "\"/>";
    }
  }

  void mark(std::size_t at) {
    const Shown& s = shown_[at];
    const std::string place = "cx=\"" + fixed(x(s), 1) + "\" cy=\"" + fixed(y(at), 1) + "\" ";
    std::string look = "r=\"2\" fill=\"currentColor\"";
    if (s.claimed()) {
      const std::string colour = colour_of(s.node->kind);
      look = s.node->claim == Claim::stored
                 ? "r=\"5\" fill=\"" + colour + "\""
                 : "r=\"4\" fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\"";
    }
    out_ += "<circle " + place + look + "><title>";
    append_markup(out_, describe(s, snapshot_.price));
    out_ += "</title></circle>";
    if (!s.children.empty() || !s.node) return;
    text(x(s) + 10, y(at) + 4,
         std::to_string(s.node->depth) + " " + to_string(s.node->kind) + ", rate " +
             significant(s.served) + ", " + format_bytes(s.node->bytes));
  }

  const PlanSnapshot& snapshot_;
  const std::vector<Shown>& shown_;
  std::vector<std::int64_t> rows_;
  std::int64_t row_count_ = 0;
  double deepest_ = 1;
  std::string out_;
};

}  // namespace

std::string plan_text(const PlanSnapshot& snapshot) {
  const Outline outline(snapshot);
  std::string out = heading(snapshot, outline) + "\n";
  struct Line {
    std::size_t shown;
    std::size_t indent;
    const char* mark;
  };
  std::vector<Line> open = {{0, 0, ""}};
  while (!open.empty()) {
    const Line line = open.back();
    open.pop_back();
    const Shown& s = outline.shown[line.shown];
    out.append(2 * line.indent, ' ');
    out += line.mark + describe(s, snapshot.price) + "\n";
    const bool fork = s.children.size() > 1;
    for (std::size_t i = s.children.size(); i-- > 0;) {
      open.push_back({s.children[i], line.indent + (fork ? 1 : 0), fork ? "+ " : "> "});
    }
  }
  return out;
}

std::string plan_svg(const PlanSnapshot& snapshot) {
  const Outline outline(snapshot);
  return PlanDrawing(snapshot, outline).draw(heading(snapshot, outline));
}

}  // namespace cairn::engine
