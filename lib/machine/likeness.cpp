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
        for (int d = 0; d < t.domains(l); ++d) {
            const bool is_apart = apart >= 0 && t.domain_of(l, apart) == d;
            const int first = t.first_child(l, d), end = t.first_child(l, d + 1);
            parts.assign(1, end - first);
            if (l > 0) append(classes_.back(), first, end);
            if (const auto of = static_cast<std::size_t>(l); of < marks.size() && !marks[of].empty())
                append(marks[of], first, end);
            classes.push_back(is_apart ? -1 : seen.try_emplace(parts, static_cast<int>(seen.size())).first->second);
        }
        classes_.push_back(std::move(classes));
    }
}

}  // namespace terrace::detail
