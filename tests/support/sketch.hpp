#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace terrace::detail::test {

/// Writes a schedule of rank 0 by hand, instruction by instruction.
class sketch {
public:
    explicit sketch(std::int64_t count = 0, int ranks = 4) {
        made_.ranks = ranks;
        made_.count = made_.send = made_.recv = count;
        made_.phases.push_back({});
    }

    /// Adds an instruction. By the second form a message has all elements.
    sketch& add(instr i) {
        made_.instrs.push_back(i);
        after_.emplace_back();
        return *this;
    }
    sketch& add(action what, int peer = -1, int step = 0) {
        const range all{0, made_.count};
        const bool sends = what == action::send;
        return add(instr{.what = what,
                         .step = step,
                         .peer = peer,
                         .dst = sends ? operand{} : operand{buffer::recv, all},
                         .src = what == action::recv ? operand{} : operand{buffer::send, all}});
    }
    /// Lets one instruction wait for an earlier one.
    sketch& order(std::uint32_t before, std::uint32_t then) {
        after_[before].push_back(then);
        ++made_.instrs[then].waits;
        return *this;
    }
    /// Returns the schedule for any other change.
    schedule& raw() noexcept { return made_; }

    schedule done() const {
        schedule s = made_;
        for (std::size_t n = 0; n < after_.size(); ++n) {
            s.instrs[n].first_successor = static_cast<std::uint32_t>(s.successors.size());
            s.instrs[n].successors = static_cast<std::uint32_t>(after_[n].size());
            s.successors.insert(s.successors.end(), after_[n].begin(), after_[n].end());
        }
        return s;
    }

private:
    schedule made_;
    std::vector<std::vector<std::uint32_t>> after_;
};

}  // namespace terrace::detail::test
