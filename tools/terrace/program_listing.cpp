#include "tools/terrace/program_listing.hpp"

#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "tools/common/table.hpp"

namespace terrace::detail {

namespace {

std::string text_of(const operand& o) {
    constexpr std::array names{"send", "recv", "scratch"};
    return fmt::format("{}[{}..{})", names[at(static_cast<int>(o.where))], o.part.begin, o.part.end);
}

std::string text_of(std::span<const operand> all, std::string_view between) {
    std::vector<std::string> texts;
    for (const operand& o : all) texts.push_back(text_of(o));
    return fmt::format("{}", fmt::join(texts, between));
}

std::string stage_operands(const schedule& s, const instr& i) {
    const group& g = s.groups[at(i.peer)];
    std::string text = fmt::format("group {}", fmt::join(g.members(), " "));
    // Nobody else reads the vector of a reduction's root.
    const bool is_read = i.what != action::stage_reduce || i.sources == 0;
    if (is_read && !i.src.part.empty()) text += fmt::format(", gives {}", text_of(i.src));
    if (i.sources > 0) text += fmt::format(", own part from {}", text_of(s.sources_of(i), ", "));
    if (!i.dst.part.empty()) text += fmt::format(", gets {}", text_of(i.dst));
    return text;
}

std::string operands(const schedule& s, const instr& i) {
    switch (i.what) {
        case action::send: return fmt::format("{} to rank {}", text_of(i.src), i.peer);
        case action::recv: return fmt::format("{} from rank {}", text_of(i.dst), i.peer);
        case action::recv_reduce: return fmt::format("{} += from rank {}", text_of(i.dst), i.peer);
        case action::copy: return fmt::format("{} = {}", text_of(i.dst), text_of(i.src));
        case action::reduce: return fmt::format("{} = {}", text_of(i.dst), text_of(s.sources_of(i), " + "));
        default: return stage_operands(s, i);
    }
}

}  // namespace

std::string program_listing(const schedule& s) {
    std::vector<std::vector<std::size_t>> awaited(s.instrs.size());
    for (std::size_t n = 0; n < s.instrs.size(); ++n)
        for (const std::uint32_t later : s.successors_of(s.instrs[n])) awaited[later].push_back(n);
    table rows("><<><<");
    rows.add({"n", "instruction", "operands", "step", "stage", "waits for"});
    for (std::size_t n = 0; n < s.instrs.size(); ++n) {
        const instr& i = s.instrs[n];
        const phase& of = s.phases[i.phase];
        rows.add({fmt::format("{}", n), std::string(to_string(i.what)), operands(s, i), fmt::format("{}", i.step),
                  fmt::format("{} {}", of.stage, of.down ? "down" : "up"),
                  awaited[n].empty() ? "-" : fmt::format("{}", fmt::join(awaited[n], ", "))});
    }
    return rows.text();
}

}  // namespace terrace::detail
