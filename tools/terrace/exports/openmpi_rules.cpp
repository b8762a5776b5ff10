// Files of rules for components of Open MPI: numbers, of which there are as many as a number before them says. `#`
// begins a comment.

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "tools/terrace/exports/formats.hpp"
#include "tools/terrace/exports/library_algorithms.hpp"

namespace terrace::detail {

namespace {

constexpr std::array rule_collectives{library_collective{collective::allgather, 0, "ALLGATHER", "Allgather"},
                                      library_collective{collective::allreduce, 2, "ALLREDUCE", "Allreduce"},
                                      library_collective{collective::broadcast, 7, "BCAST", "Bcast"},
                                      library_collective{collective::reduce, 11, "REDUCE", "Reduce"}};

// The component `han` has these, too, and runs what no rule is for.
constexpr std::pair<int, std::string_view> others_of_han[]{{6, "barrier"}, {9, "gather"}, {15, "scatter"}};

constexpr std::array<std::string_view, 7> components{"self", "basic", "libnbc", "tuned", "sm", "adapt", "han"};

constexpr std::int64_t any_int = std::numeric_limits<int>::max(), any_size = std::numeric_limits<std::int64_t>::max();

// A number of a file. Those of a set lead to a set each, which has those of the next kind.
struct number_kind {
    std::string_view name;
    std::int64_t most;
    bool rises = false;  // from one to the next
};
constexpr number_kind collective_kind{"collective", 21}, level_kind{"level", 2}, ranks_kind{"ranks", any_int, true},
    bytes_kind{"message size", any_size, true};

// By collective: how many algorithms the component `tuned` has, in Open MPI 4.1.
constexpr std::array<int, 22> most_algorithm{6, 5, 6, 5, 2, 0, 6, 9, 2, 3, 0, 7, 4, 4, 2, 3};

class rules_reader {
public:
    rules_reader(const named_text& file, openmpi_component component)
        : file_(file), han_(component == openmpi_component::han) {}

    std::string read() {
        constexpr std::array tuned_kinds{collective_kind, ranks_kind, bytes_kind};
        constexpr std::array han_kinds{collective_kind, level_kind, ranks_kind, bytes_kind};
        if (han_) read_set(han_kinds);
        else read_set(tuned_kinds);
        if (find_next()) {
            number_ = next_;
            fail("more numbers than the counts before them say");
        }
        return fmt::format("{} rules for Open MPI's component {}", rules_, han_ ? "han" : "tuned");
    }

private:
    void read_set(std::span<const number_kind> kinds) {
        const number_kind& kind = kinds[0];
        const std::int64_t count = next(fmt::format("count of: {}", kind.name), 1, any_size);
        std::int64_t before = -1;
        for (std::int64_t n = 0; n < count; ++n) {
            const std::int64_t key = next(kind.name, 0, kind.most);
            if (kind.rises && key <= before)
                fail(fmt::format("{} {} behind {}: they must rise", kind.name, key, before));
            before = key;
            if (kind.name == collective_kind.name) collective_ = static_cast<std::size_t>(key);
            if (kinds.size() > 1) read_set(kinds.subspan(1));
            else read_rule(n, key);
        }
    }

    void read_rule(std::int64_t n, std::int64_t bytes) {
        if (n == 0 && bytes != 0) fail("the first message size must be 0");
        ++rules_;
        if (han_) {
            const bool found = find_next();
            number_ = next_;
            next_ = std::min(file_.text.find_first_of(" \t\r\n#", next_), file_.text.size());
            if (!found || std::ranges::count(components, file_.text.substr(number_, next_ - number_)) == 0)
                fail("no name of a component of Open MPI");
            return;
        }
        next("algorithm", 0, most_algorithm[collective_]);
        next("fan", 0, any_int);
        next("segment", 0, any_int);
    }

    // Goes to the next number; false at the end.
    bool find_next() {
        for (bool in_comment = false; next_ < file_.text.size(); ++next_) {
            const char c = file_.text[next_];
            if (c == '\n') {
                in_comment = false;
                ++line_;
                line_begin_ = next_ + 1;
            } else if (c == '#') {
                in_comment = true;
            } else if (!in_comment && c != ' ' && c != '\t' && c != '\r') {
                return true;
            }
        }
        return false;
    }

    std::int64_t next(std::string_view name, std::int64_t least, std::int64_t most) {
        const bool found = find_next();
        number_ = next_;
        std::int64_t value = 0;
        const char *begin = file_.text.data() + next_, *end = file_.text.data() + file_.text.size();
        const auto read = std::from_chars(begin, end, value);
        next_ += static_cast<std::size_t>(read.ptr - begin);
        if (!found || read.ec != std::errc{} || value < least || value > most)
            fail(fmt::format("no {} from {} to {}", name, least, most));
        return value;
    }

    [[noreturn]] void fail(const std::string& why) const {
        throw input_error(file_.name, line_, static_cast<int>(number_ - line_begin_) + 1, why);
    }

    const named_text& file_;
    bool han_;
    std::size_t next_ = 0, number_ = 0, line_begin_ = 0, collective_ = 0;
    int line_ = 1, rules_ = 0;
};

}  // namespace

std::span<const library_collective> library_collectives() noexcept { return rule_collectives; }

std::string openmpi_rules_text(openmpi_component component, int ranks, const library_choices& choices) {
    const bool han = component == openmpi_component::han;
    const std::string own = han ? "tuned" : "0 0 0";
    std::string out;
    int count = 0;
    const auto write = [&](int number, std::string_view name, const std::vector<library_choice>& of) {
        ++count;
        out += fmt::format("{} # {}\n{}3 # sizes of communicators\n1 1\n0 {}\n{} # ranks\n{} # message sizes\n", number,
                           name, han ? "1 # level\n2 # all nodes\n" : "", own, ranks, of.size());
        for (const auto& [from, how] : of)
            out += how == nullptr ? fmt::format("{} {} # Open MPI's own choice\n", from, own)
                   : han          ? fmt::format("{} han # {}\n", from, how->name)
                                  : fmt::format("{} {} 0 {} # {}\n", from, how->openmpi, how->segment, how->name);
        out += fmt::format("{} 1\n0 {}\n", ranks + 1, own);
    };
    const std::vector<library_choice> own_choice(1);
    for (const library_collective& c : rule_collectives) {
        const auto found = choices.find(c.what);
        if (found != choices.end()) write(c.openmpi, to_string(c.what), found->second);
        else if (han) write(c.openmpi, to_string(c.what), own_choice);
    }
    if (han)
        for (const auto& [number, name] : others_of_han) write(number, name, own_choice);
    return fmt::format("{} # collectives\n{}", count, out);
}

std::string check_openmpi_rules(const named_text& file) { return rules_reader(file, openmpi_component::tuned).read(); }
std::string check_openmpi_han(const named_text& file) { return rules_reader(file, openmpi_component::han).read(); }

}  // namespace terrace::detail
