#include "machine/likeness.hpp"

#include <map>

namespace terrace::detail {

likeness::likeness(const tree& t, int apart) {
    std::vector<int> parts;
    for (int l = 0; l < t.depth(); ++l) {
        std::map<std::vector<int>, int> seen;
        std::vector<int> classes;
        for (int d = 0; d < t.domains(l); ++d) {
            const bool is_apart = apart >= 0 && t.domain_of(l, apart) == d;
            if (l == 0) parts.assign(1, t.children(l, d));
            else
                parts.assign(classes_.back().begin() + t.first_child(l, d),
                             classes_.back().begin() + t.first_child(l, d + 1));
            classes.push_back(is_apart ? -1 : seen.try_emplace(parts, static_cast<int>(seen.size())).first->second);
        }
        classes_.push_back(std::move(classes));
    }
}

}  // namespace terrace::detail
