#include "schedule/lane_machine.hpp"
#include "schedule/verify/proof.hpp"
#include "schedule/verify/stages.hpp"

namespace terrace::detail::proof {

namespace {

// One send and one receive in flight on each rank: the strictest rule. A program that completes under it always does.
constexpr int request_slots = 1;

// Runs the programs of all ranks, one chunk in one lane each, over a network that buffers nothing: a send completes
// only together with its receive. A rank begins its next round of a stage when the peers that it waits for have done
// theirs. An event that can happen stays possible until it happens. So all orders of events get equally far, and one
// run represents all.
class rehearsal {
public:
    rehearsal(const network& net, const stages& with)
        : net_(net), stages_(with), in_flight_(net.size()), complete_(net.size()), rounds_(net.size(), not_arrived) {
        lanes_.reserve(net.schedules().size());
        for (const schedule& s : net.schedules()) lanes_.emplace_back(s);
    }

    std::vector<event> run() {
        for (lane& l : lanes_) {
            port p{*this, l};
            l.machine.run_from(p, 0);
            l.machine.issue(p);
        }
        while (!deliverable_.empty() || !arrivals_.empty()) {
            if (!arrivals_.empty()) {
                const std::size_t stage = arrivals_.back();
                arrivals_.pop_back();
                advance(stages_.instance(stage));
                continue;
            }
            const std::size_t sent = deliverable_.back();
            deliverable_.pop_back();
            order_.push_back({sent});
            complete(sent);
            complete(net_.partner(sent));
        }
        for (const auto issued : {&lane_code::sends, &lane_code::receives, &lane_code::stages})
            for (const lane& l : lanes_)
                for (const std::uint32_t n : l.code.*issued)
                    if (const std::size_t id = net_.id(l.rank, n); !complete_[id])
                        net_.refuse(id, "never completes: a deadlock");
        return std::move(order_);
    }

private:
    struct lane {
        explicit lane(const schedule& s) : rank(s.rank), code(s) {}

        int rank;
        lane_code code;
        lane_machine machine{chunk_order{}, request_slots};
    };

    // Records the instructions that a rank issues. A message is delivered when both ends are in flight.
    struct port {
        static constexpr bool locals_take_time = false;

        const lane_code* begin_chunk(std::int64_t) const { return &of.code; }
        void end_chunk() const {}
        void end_lane() const {}
        std::uint32_t segments(std::uint32_t) const { return 1; }
        void send(std::uint32_t n, std::uint32_t) const { all.start(all.net_.id(of.rank, n)); }
        void receive(std::uint32_t n, std::uint32_t) const { all.start(all.net_.id(of.rank, n)); }
        void start_stage(std::uint32_t n) const { all.arrive(all.net_.id(of.rank, n)); }
        void run_local(std::uint32_t n) const { all.order_.push_back({all.net_.id(of.rank, n)}); }
        void completed(std::uint32_t n) const { all.complete_[all.net_.id(of.rank, n)] = true; }

        rehearsal& all;
        lane& of;
    };

    void start(std::size_t message) {
        in_flight_[message] = true;
        if (!in_flight_[net_.partner(message)]) return;
        deliverable_.push_back(net_.instruction(message).what == action::send ? message : net_.partner(message));
    }

    void arrive(std::size_t stage) {
        rounds_[stage] = 0;
        arrivals_.push_back(stages_.number_of(stage));
    }

    // Advances all members that have arrived as far as their waits permit.
    void advance(const stage_instance& s) {
        for (bool moved = true; moved;) {
            moved = false;
            for (const std::size_t id : s.ids) {
                const int round = rounds_[id];
                if (round == not_arrived || round > s.work.rounds() || !may_go_on(s, id)) continue;
                moved = true;
                ++rounds_[id];
                if (round < s.work.rounds()) order_.push_back({id, round});
                else complete(id);
            }
        }
    }

    bool may_go_on(const stage_instance& s, std::size_t id) const {
        for (int peer = 0; peer < static_cast<int>(s.ids.size()); ++peer)
            if (s.work.awaits(rounds_[id], stages_.position_of(id), peer) && rounds_[s.ids[at(peer)]] < rounds_[id])
                return false;
        return true;
    }

    void complete(std::size_t id) {
        lane& l = lanes_[at(net_.rank(id))];
        port p{*this, l};
        l.machine.complete(p, static_cast<std::uint32_t>(net_.number(id)));
        l.machine.issue(p);
    }

    static constexpr int not_arrived = -1;

    const network& net_;
    const stages& stages_;
    std::vector<lane> lanes_;               // by rank
    std::vector<bool> in_flight_;           // by id, of messages that have been issued
    std::vector<bool> complete_;            // by id
    std::vector<std::size_t> deliverable_;  // sends whose two ends are in flight
    std::vector<int> rounds_;               // by id, of stages: completed rounds, plus one when the stage is complete
    std::vector<std::size_t> arrivals_;     // stages at which a member has arrived
    std::vector<event> order_;
};

}  // namespace

std::vector<event> completion_order(const network& net, const stages& with) { return rehearsal(net, with).run(); }

}  // namespace terrace::detail::proof
