#include "planner/node_memory.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail {

namespace {

class memory_counter {
public:
    explicit memory_counter(load_tally& tally)
        : tally_(tally),
          setting_(tally.setting()),
          size_(tally.size()),
          work_(memory_work(setting_.where.how, setting_.down, setting_.at_root)) {
        std::int64_t end = 0;
        for (int i = 0; i < size_; ++i) {
            const std::int64_t begin = end;
            end += setting_.blocks.empty() ? 1 : setting_.blocks[at(i)];
            shards_.push_back({begin, end});
        }
        elements_ = static_cast<double>(end);
    }

    void run() {
        tally_.now().startups = flag_waits(work_) * flag_time(setting_.machine, setting_.outermost_joining());
        for (const std::size_t i : tally_.samples()) {
            const sample_place& q = setting_.place_of(i);
            tally_.add_processor_time(i, accesses(q.position) * q.share * access_time(setting_.machine));
            tally_.note_size(part_of(q.position) * q.largest, false);
            pass(i);
        }
    }

private:
    const stage_round& round() const { return work_.round(0); }

    // Reads and writes of a member's processor, in vectors.
    double accesses(int member) const {
        const double copied = copies_in() ? 2 * exposed(member) : 0;
        const double touched = static_cast<double>(work_.touched(0, member, setting_.in_scratch, shards_)) / elements_;
        // All of a vector that a rank has just copied in is in its cache: where it reads all of that again, that is
        // free.
        const double cached = copied > 0 && round().adds && setting_.where.how == mode::replicate ? 1 : 0;
        return copied + touched - cached;
    }

    // The vector comes from the caller, and is to be where peers reach it. (A broadcast's root is priced by itself.)
    bool copies_in() const {
        return !setting_.down && setting_.at_root == root_part::none && setting_.where.before == nullptr &&
               !setting_.in_scratch;
    }

    // The part of a member's vector that peers read, on the way up.
    double exposed(int member) const {
        std::int64_t read = 0;
        for (int reader = 0; reader < size_; ++reader)
            if (reader != member)
                read = round().part == extent::whole ? std::max(read, work_.read(0, reader, member, shards_).count())
                                                     : read + work_.read(0, reader, member, shards_).count();
        return static_cast<double>(read) / elements_;
    }

    // The part of the vector that a member works on.
    double part_of(int member) const { return round().part == extent::whole ? 1 : setting_.owned_by(member, 1, size_); }

    void pass(std::size_t i) {
        const sample_place& q = setting_.place_of(i);
        const int from = setting_.where.from;
        for (int h = 0; h < setting_.where.to; ++h) {
            if (!setting_.where.tiers[at(h)].linked()) continue;
            const bool inside = h <= from;  // a position
            const sample_place::block b = inside ? sample_place::block{q.position, 1} : q.blocks[at(h - from - 1)];
            const link_use use = read_across(b) * q.below[at(std::min(h, from))];
            tally_.pass(i, h, use);
            tally_.now().wire = std::max(tally_.now().wire, use.busier() / setting_.rate(i, h));
        }
    }

    // Vectors read through the link of consecutive positions, by those outside and by those inside.
    link_use read_across(const sample_place::block& b) const {
        const double owned = setting_.owned_by(b.first, b.positions, size_), root = b.first == 0 ? 1 : 0;
        const member_set inside{static_cast<double>(b.positions), owned};
        const member_set outside{static_cast<double>(size_ - b.positions), 1 - owned};
        const member_set root_inside{root, owned}, root_outside{1 - root, 1 - owned};
        const bool from_root = round().from_root, by_root = round().by_root;
        return {vectors_read(round(), from_root ? root_inside : inside, by_root ? root_outside : outside),
                vectors_read(round(), from_root ? root_outside : outside, by_root ? root_inside : inside)};
    }

    load_tally& tally_;
    const phase_setting& setting_;
    int size_;
    stage_work work_;
    std::vector<range> shards_;  // by position
    double elements_ = 0;        // of all shards
};

}  // namespace

stage_work memory_work(mode how, bool down, root_part at_root) {
    if (only_at_root(at_root)) return stage_work(down ? action::stage_gather : action::stage_scatter);
    switch (how) {
        case mode::scatter: return stage_work(down ? action::stage_allgather : action::stage_reduce_scatter);
        case mode::root: return stage_work(down ? action::stage_broadcast : action::stage_reduce);
        default: return stage_work(action::stage_allreduce, 0, sharing::replicated);
    }
}

double vectors_read(const stage_round& round, const member_set& owners, const member_set& readers) {
    switch (round.part) {
        case extent::readers_shard: return owners.count * readers.owned;
        case extent::owners_shard: return owners.owned * readers.count;
        default: return owners.count * (round.from_root ? std::min(readers.count, 1.0) : readers.count);
    }
}

int flag_waits(const stage_work& work) {
    const bool adds_for_others = work.round(0).adds && work.round(0).part == extent::readers_shard;
    return adds_for_others ? 2 : 1;
}

void add_memory_stage(load_tally& tally) { memory_counter(tally).run(); }

}  // namespace terrace::detail
