#include "machine/likeness.hpp"

#include <map>

namespace terrace::detail {

likeness::likeness(const tree& t, int apart, const std::vector<std::vector<int>>& marks) {
    std::vector<int> parts;
    const auto append = [&](const std::vector<int>& of_children, int first, int end) {
        parts.insert(parts.end(), of_children.begin() + first, of_children.begin() + end);
    };
    for (int l = 0; l < t.depth(); ++l) {
        std::map<std::vector<int>, int> seen;
        std::vector<int> classes;
        std::vector<int>& firsts = firsts_.emplace_back();
        const int other = apart >= 0 ? t.domain_of(l, apart) : -1;
        for (int d = 0; d < t.domains(l); ++d) {
            if (d == other) {
                classes.push_back(-1);
                firsts.push_back(d);
                continue;
            }
            const int first = t.first_child(l, d), end = t.first_child(l, d + 1);
            parts.assign(1, end - first);
            if (l > 0) append(classes_.back(), first, end);
            if (const auto of = static_cast<std::size_t>(l); of < marks.size() && !marks[of].empty())
                append(marks[of], first, end);
            const auto [known, is_new] = seen.try_emplace(parts, static_cast<int>(seen.size()));
            classes.push_back(known->second);
            if (is_new) firsts.push_back(d);
        }
        classes_.push_back(std::move(classes));
    }
}

}  // namespace terrace::detail
