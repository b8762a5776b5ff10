#include "transport/mpi/library_stages.hpp"

#include <algorithm>
#include <cstring>

namespace terrace {

namespace {

// Under which datatypes keep their element.
int element_key() {
    static const int key = [] {
        int made = MPI_KEYVAL_INVALID;
        check(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &made, nullptr),
              "MPI_Type_create_keyval");
        return made;
    }();
    return key;
}

std::size_t offset(const stage_call& c, range part) { return static_cast<std::size_t>(part.begin) * c.element; }

}  // namespace

// The groups stand in one order everywhere, so that the first one that is not made yet has all its members waiting.
library_stages::library_stages(const owned_comm& world, std::span<const std::vector<int>> groups, int slots)
    : rank_(world.rank()), lanes_(static_cast<std::size_t>(slots)) {
    element_key();
    check(MPI_Op_create(combine, 1, &op_), "MPI_Op_create");
    MPI_Group all = MPI_GROUP_NULL;
    check(MPI_Comm_group(world.get(), &all), "MPI_Comm_group");
    for (const std::vector<int>& members : groups) {
        if (std::find(members.begin(), members.end(), rank_) == members.end()) continue;
        MPI_Group some = MPI_GROUP_NULL;
        check(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some), "MPI_Group_incl");
        group_comms& made = groups_.emplace_back();
        made.members = members;
        for (int slot = 0; slot < slots; ++slot) {
            MPI_Comm comm = MPI_COMM_NULL;
            check(MPI_Comm_create_group(world.get(), some, 0, &comm), "MPI_Comm_create_group");
            made.comms.emplace_back(comm);
        }
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
}

library_stages::~library_stages() {
    if (abandoned_ || mpi_is_over()) return;
    for (element& e : elements_) MPI_Type_free(&e.type);
    MPI_Op_free(&op_);
}

void library_stages::abandon() noexcept {
    abandoned_ = true;
    for (group_comms& g : groups_)
        for (owned_comm& c : g.comms) c.abandon();
}

void library_stages::combine(void* in, void* inout, int* count, MPI_Datatype* type) {
    const element* e = nullptr;
    int found = 0;
    MPI_Type_get_attr(*type, element_key(), &e, &found);
    const void* inputs[] = {in, inout};
    e->reduce(inout, inputs, 2, *count, 1);
}

MPI_Datatype library_stages::type_of(const stage_call& call) {
    for (const element& e : elements_)
        if (e.bytes == call.element && e.reduce == call.reduce) return e.type;
    element& made = elements_.emplace_back(element{call.element, call.reduce, MPI_DATATYPE_NULL});
    MPI_Type_contiguous(static_cast<int>(call.element), MPI_BYTE, &made.type);
    MPI_Type_commit(&made.type);
    MPI_Type_set_attr(made.type, element_key(), &made);
    return made.type;
}

MPI_Comm library_stages::comm_of(const stage_call& call) noexcept {
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const group_comms& g) { return g.members == call.group->members; });
    return found->comms[static_cast<std::size_t>(call.lane_slot)].get();
}

library_stages::started library_stages::start(const stage_call& call) noexcept {
    const stage_group& g = *call.group;
    lane& l = lanes_[static_cast<std::size_t>(call.lane_slot)];
    l.call = call;
    l.counts.clear();
    l.begins.clear();
    const range whole = g.whole();
    for (const range& shard : g.shards) {
        l.counts.push_back(static_cast<int>(shard.count()));
        l.begins.push_back(static_cast<int>(shard.begin - whole.begin));
    }
    const range own = g.shards[static_cast<std::size_t>(g.position)];
    const int all = static_cast<int>(whole.count()), mine = l.counts[static_cast<std::size_t>(g.position)];
    const std::byte* given = call.src + offset(call, whole);
    std::byte* got = call.dst + offset(call, whole);
    const MPI_Datatype type = type_of(call);
    const MPI_Comm comm = comm_of(call);
    const bool is_root = g.position == g.root;
    started made{MPI_REQUEST_NULL, "", MPI_SUCCESS};
    switch (call.what) {
        case action::stage_reduce_scatter:
            l.shard.resize(std::max(l.shard.size(), static_cast<std::size_t>(mine) * call.element));
            made.call = "MPI_Ireduce_scatter";
            made.code = MPI_Ireduce_scatter(given, l.shard.data(), l.counts.data(), type, op_, comm, &made.request);
            break;
        case action::stage_allgather:
            made.call = "MPI_Iallgatherv";
            made.code = MPI_Iallgatherv(given == got ? MPI_IN_PLACE : call.src + offset(call, own), mine, type, got,
                                        l.counts.data(), l.begins.data(), type, comm, &made.request);
            break;
        case action::stage_reduce:
            made.call = "MPI_Ireduce";
            made.code = MPI_Ireduce(is_root && given == got ? MPI_IN_PLACE : given, got, all, type, op_, g.root, comm,
                                    &made.request);
            break;
        default:
            made.call = "MPI_Ibcast";
            made.code =
                MPI_Ibcast(is_root ? const_cast<std::byte*>(given) : got, all, type, g.root, comm, &made.request);
    }
    return made;
}

// Moves what is not where it should be yet, and divides averages.
void library_stages::finish(int lane_slot) noexcept {
    const lane& l = lanes_[static_cast<std::size_t>(lane_slot)];
    const stage_call& c = l.call;
    const stage_group& g = *c.group;
    const auto settle = [&](const std::byte* from, range part) {
        std::byte* to = c.dst + offset(c, part);
        const void* input = from;
        if (c.divisor != 1) c.reduce(to, &input, 1, part.count(), c.divisor);
        else if (from != to) std::memcpy(to, from, static_cast<std::size_t>(part.count()) * c.element);
    };
    if (c.what == action::stage_reduce_scatter) settle(l.shard.data(), g.shards[static_cast<std::size_t>(g.position)]);
    if (g.position != g.root) return;
    if (c.what == action::stage_reduce) settle(c.dst + offset(c, g.whole()), g.whole());
    if (c.what == action::stage_broadcast) settle(c.src + offset(c, g.whole()), g.whole());
}

std::vector<int> library_stages::peers(int lane_slot) const {
    std::vector<int> others = lanes_[static_cast<std::size_t>(lane_slot)].call.group->members;
    std::erase(others, rank_);
    return others;
}

}  // namespace terrace
