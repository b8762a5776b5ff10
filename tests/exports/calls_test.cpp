// Formats of single calls: an exported call reads back, has the plan's messages, and is proved. A damaged file is
// refused, or does the same.

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/index.hpp"
#include "exports/damage.hpp"
#include "exports/mscclpp_threads.hpp"
#include "exports/random_calls.hpp"
#include "schedule/call_schedule.hpp"
#include "support/effort.hpp"
#include "support/interleave.hpp"
#include "support/refusal.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail::test {
namespace {

std::vector<named_text> files_of(const std::vector<std::string>& texts) {
    std::vector<named_text> files;
    for (const std::string& text : texts) files.push_back({fmt::format("rank {}", files.size()), text});
    return files;
}

std::vector<export_format> call_formats() {
    std::vector<export_format> found;
    for (const export_format& f : export_formats())
        if (f.write_call != nullptr) found.push_back(f);
    return found;
}

using sizes = std::map<std::pair<int, int>, std::vector<std::int64_t>>;  // elements per message, by (from, to)

sizes sorted(sizes of) {
    for (auto& [way, counts] : of) std::ranges::sort(counts);
    return of;
}

void add_messages(const schedule& s, sizes& to) {
    for (const instr& i : s.instrs)
        if (i.what == action::send) to[{s.rank, i.peer}].push_back(i.src.part.count());
}

TEST(chakra, has_the_messages_of_the_plan) {
    dice d(seed());
    const int calls = share("calls", 400, 80);
    for (int n = 0; n < calls; ++n) {
        const random_call call = make_call(d, all_collectives);
        SCOPED_TRACE(call.name());
        const call_program read = read_chakra(files_of(chakra_traces(call.plan, call.what, call.bytes).texts));
        sizes planned, exported;
        const rule& how = call.plan.choose(call.what, call.bytes);
        for (const schedule& s : read.ranks) {
            add_messages(s, exported);
            collective_call whole{.what = call.what, .count = read.elements, .rounds_on_wire = false};
            if (row_of(call.what).blocks) {
                whole.count /= static_cast<std::int64_t>(read.ranks.size());
                whole.blocks = equal_blocks(static_cast<int>(read.ranks.size()), whole.count);
            }
            const call_schedules made = schedules_of(call.plan.machine, how, whole, s.rank, {}, buffer::recv, {});
            for (std::int64_t k = 1; k < made.chunks.chunks; ++k) add_messages(made.full, planned);
            add_messages(made.tail, planned);
        }
        EXPECT_EQ(sorted(exported), sorted(planned));
        EXPECT_EQ(read.fault().value_or("proved"), "proved");
    }
}

TEST(chakra, says_that_a_set_is_too_large_to_be_read) {
    call_program call;
    call.ranks.emplace_back().instrs.resize(999'999);
    EXPECT_EQ(chakra_note(call), "");
    call.ranks.emplace_back().instrs.resize(1);
    call.ranks[1].instrs[0].what = action::recv_reduce;
    EXPECT_EQ(chakra_note(call), "1000001 nodes in the files: terrace verify reads up to 1000000");
}

// Changes one message of a file of length-delimited messages: flips a bit, swaps it with another, or removes it.
void damage_trace(std::string& text, dice& d) {
    std::vector<std::string> messages;
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t length = 0, next = begin;
        for (int shift = 0;; shift += 7) {
            length |= static_cast<std::size_t>(text[next] & 0x7f) << shift;
            if ((text[next++] & 0x80) == 0) break;
        }
        messages.push_back(text.substr(begin, next + length - begin));
        begin = next + length;
    }
    const std::size_t n = d.below(messages.size());
    switch (d.below(8)) {
        case 0: messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(n)); break;
        case 1: std::swap(messages[n], d.pick(messages)); break;
        default: {
            char& byte = d.pick(messages[n]);
            byte = static_cast<char>(byte ^ 1 << d.below(8));
        }
    }
    text.clear();
    for (const std::string& message : messages) text += message;
}

TEST(call_formats, a_damaged_file_is_refused_or_does_the_same) {
    constexpr int mutants = 200, interleavings = 20;
    for (const export_format& format : call_formats()) {
        dice d(seed());
        int unread = 0, unproved = 0, same = 0;
        while (unread + unproved + same < mutants) {
            const random_call call = make_call(d, format.holds);
            std::vector<std::string> texts;
            if (refusal_of([&] { texts = format.write_call(call.plan, call.what, call.bytes).texts; }) != "accepted")
                continue;
            const std::vector<std::string> before = texts;
            std::string& text = d.pick(texts);
            format.ending.empty() ? damage_json(text, d) : damage_trace(text, d);
            if (texts == before) continue;
            call_program read;
            if (refusal_of([&] { read = format.read_call(files_of(texts)); }) != "accepted") ++unread;
            else if (read.fault()) ++unproved;
            else {
                ++same;
                EXPECT_EQ(judge(read.ranks, interleavings, d.roll(), read.terms()), verdict::fine) << call.name();
                if (format.name != "mscclpp") continue;
                const nlohmann::json plan = nlohmann::json::parse(text);
                EXPECT_EQ(run_on_threads(plan, plan.at("inplace"), d.roll()), "")
                    << nlohmann::json::diff(nlohmann::json::parse(before[0]), plan).dump();
            }
        }
        fmt::print("{}: {} mutants, {} refused by the reader, {} by the verifier, {} do the same\n", format.name,
                   mutants, unread, unproved, same);
        EXPECT_GT(unproved, 0);
    }
}

}  // namespace
}  // namespace terrace::detail::test
