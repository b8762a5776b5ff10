#include "topology/part_list.hpp"

namespace terrace::detail {

part_list::part_list(part& machine) { list(machine, nowhere); }

void part_list::list(part& p, int above) {
    const int self = size();
    entries_.push_back({&p, above});
    for (part& c : p.children) list(c, self);
}

int part_list::within(int i, part::kind what) const {
    for (int place = above(i); place != nowhere; place = above(place))
        if ((*this)[place].what == what) return place;
    return i;
}

int part_list::common(int a, int b) const {
    while (a != b) (a > b ? a : b) = above(a > b ? a : b);  // what is above comes before
    return a;
}

std::vector<int> part_list::counts(const std::vector<int>& chosen) const {
    std::vector<int> result(at(size()), 0);
    for (const int i : chosen) ++result[at(i)];
    for (int i = size() - 1; i > 0; --i) result[at(above(i))] += result[at(i)];
    return result;
}

std::vector<int> part_list::of_kind(part::kind what) const {
    std::vector<int> found;
    for (int i = 0; i < size(); ++i)
        if ((*this)[i].what == what) found.push_back(i);
    return found;
}

}  // namespace terrace::detail
