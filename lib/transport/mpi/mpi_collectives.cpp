#include "transport/mpi/mpi_collectives.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Returns the key of the datatype attribute that refers to the element.
int element_key() {
    static const int key = [] {
        int made = MPI_KEYVAL_INVALID;
        check(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &made, nullptr),
              "MPI_Type_create_keyval");
        return made;
    }();
    return key;
}

}  // namespace

// All ranks have the groups in the same order, so all members of the first group without communicators wait for it.
mpi_collectives::mpi_collectives(const numbered_comm& all, int rank, std::span<const std::vector<int>> groups,
                                 int lane_slots)
    : rank_(rank) {
    used_->lanes.resize(at(lane_slots));
    requests_.reserve(at(lane_slots));
    lane_of_.reserve(at(lane_slots));
    indices_.resize(at(lane_slots));
    can_.slots = lane_slots;
    for (const action a :
         {action::stage_reduce_scatter, action::stage_allgather, action::stage_reduce, action::stage_broadcast})
        can_.mpi_stages |= 1u << static_cast<unsigned>(a);
    can_.mpi_groups = std::make_shared<const std::set<std::vector<int>>>(groups.begin(), groups.end());
    element_key();
    check(MPI_Op_create(combine, 1, &used_->op), "MPI_Op_create");
    for (const std::vector<int>& members : groups) {
        if (std::find(members.begin(), members.end(), rank_) == members.end()) continue;
        std::vector<int> numbers;
        for (const int m : members) numbers.push_back(all.number(m));
        group_comms& made = used_->groups.emplace_back();
        made.members = members;
        for (int slot = 0; slot < lane_slots; ++slot) made.comms.emplace_back(part_of(*all.comm, *all.comm, numbers));
    }
}

mpi_collectives::~mpi_collectives() {
    if (!requests_.empty() || fault()) abandon();
    if (abandoned_ || mpi_is_over()) return;
    for (element& e : used_->elements) MPI_Type_free(&e.type);
    MPI_Op_free(&used_->op);
}

bool mpi_collectives::abandon() noexcept {
    if (!abandoned_)
        for (group_comms& g : used_->groups)
            for (owned_comm& c : g.comms) c.abandon();
    abandoned_ = true;
    const bool ended = requests_.empty();
    if (!ended) static_cast<void>(used_.release());  // MPI still uses it
    requests_.clear();
    lane_of_.clear();
    return ended;
}

void mpi_collectives::start(int slot, const stage_call& call) noexcept {
    if (fault()) return;
    started made;
    try {
        made = begin(call);
    } catch (const std::bad_alloc&) {
        fault_ = out_of_memory();
        return;
    }
    if (made.code != MPI_SUCCESS) return latch(made.call, made.code);
    used_->lanes[at(call.lane_slot)].slot = slot;
    requests_.push_back(made.request);
    lane_of_.push_back(call.lane_slot);
}

void mpi_collectives::poll(std::vector<int>& done) noexcept {
    if (requests_.empty()) return;
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(),
                                  MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS) latch("MPI_Testsome", code);
    if (count == MPI_UNDEFINED || count == 0 || fault()) return;
    take_out(std::span(indices_).first(at(count)), requests_, lane_of_, [&](int number) {
        lane& l = used_->lanes[at(number)];
        finish(l);
        done.push_back(std::exchange(l.slot, -1));
    });
}

std::vector<int> mpi_collectives::missing(int slot) const {
    for (const int number : lane_of_) {
        const lane& l = used_->lanes[at(number)];
        if (l.slot != slot) continue;
        std::vector<int> others = l.call.group->members();
        std::erase(others, rank_);
        return others;
    }
    return {};
}

void mpi_collectives::combine(void* in, void* inout, int* count, MPI_Datatype* type) {
    const element* e = nullptr;
    int found = 0;
    MPI_Type_get_attr(*type, element_key(), &e, &found);
    const void* inputs[] = {in, inout};
    e->reduce(inout, inputs, 2, *count, 1);
}

MPI_Datatype mpi_collectives::type_of(const stage_call& call) {
    for (const element& e : used_->elements)
        if (e.bytes == call.element && e.reduce == call.reduce) return e.type;
    element& made = used_->elements.emplace_back(element{call.element, call.reduce, MPI_DATATYPE_NULL});
    MPI_Type_contiguous(static_cast<int>(call.element), MPI_BYTE, &made.type);
    MPI_Type_commit(&made.type);
    MPI_Type_set_attr(made.type, element_key(), &made);
    return made.type;
}

mpi_collectives::started mpi_collectives::begin(const stage_call& call) {
    const group& g = *call.group;
    lane& l = used_->lanes[at(call.lane_slot)];
    l.call = call;
    l.counts.clear();
    l.begins.clear();
    const range whole = g.whole();
    for (const range& shard : g.shards()) {
        l.counts.push_back(static_cast<int>(shard.count()));
        l.begins.push_back(static_cast<int>(shard.begin - whole.begin));
    }
    const range own = g.own_shard();
    const int all = static_cast<int>(whole.count()), mine = l.counts[at(g.position())];
    const std::byte* given = call.src + call.offset(whole);
    std::byte* got = call.dst + call.offset(whole);
    const MPI_Datatype type = type_of(call);
    const auto comms_of_group = std::ranges::find(used_->groups, g.members(), &group_comms::members);
    const MPI_Comm comm = comms_of_group->comms[at(call.lane_slot)].get();
    const bool is_root = g.is_root();
    started made;
    switch (call.what) {
        case action::stage_reduce_scatter:
            l.shard.resize(std::max(l.shard.size(), static_cast<std::size_t>(mine) * call.element));
            made.call = "MPI_Ireduce_scatter";
            made.code =
                PMPI_Ireduce_scatter(given, l.shard.data(), l.counts.data(), type, used_->op, comm, &made.request);
            break;
        case action::stage_allgather:
            made.call = "MPI_Iallgatherv";
            made.code = PMPI_Iallgatherv(given == got ? MPI_IN_PLACE : call.src + call.offset(own), mine, type, got,
                                         l.counts.data(), l.begins.data(), type, comm, &made.request);
            break;
        case action::stage_reduce:
            made.call = "MPI_Ireduce";
            made.code = PMPI_Ireduce(is_root && given == got ? MPI_IN_PLACE : given, got, all, type, used_->op,
                                     g.root(), comm, &made.request);
            break;
        default:
            made.call = "MPI_Ibcast";
            made.code =
                PMPI_Ibcast(is_root ? const_cast<std::byte*>(given) : got, all, type, g.root(), comm, &made.request);
    }
    return made;
}

// Moves results to their places, and divides averages.
void mpi_collectives::finish(const lane& l) noexcept {
    const stage_call& c = l.call;
    const group& g = *c.group;
    const auto settle = [&](const std::byte* from, range part) {
        std::byte* to = c.dst + c.offset(part);
        const void* input = from;
        if (c.divisor != 1) c.reduce(to, &input, 1, part.count(), c.divisor);
        else if (from != to) std::memcpy(to, from, c.bytes(part));
    };
    if (c.what == action::stage_reduce_scatter) settle(l.shard.data(), g.own_shard());
    if (!g.is_root()) return;
    if (c.what == action::stage_reduce) settle(c.dst + c.offset(g.whole()), g.whole());
    if (c.what == action::stage_broadcast) settle(c.src + c.offset(g.whole()), g.whole());
}

}  // namespace terrace::detail
