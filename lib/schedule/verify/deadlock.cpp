#include "schedule/lane_machine.hpp"
#include "schedule/verify/proof.hpp"

namespace terrace::detail::proof {

namespace {

// One send and one receive in flight on each rank: the strictest rule, under which everything else gets as far.
constexpr int request_slots = 1;

// Runs the programs of all ranks, one chunk in one lane each, over a network that buffers nothing: a send completes
// only together with its receive. An event that can happen stays possible until it happens, so all orders of events get
// equally far, and one run stands for all.
class rehearsal {
public:
    explicit rehearsal(const network& net) : net_(net), in_flight_(net.size()), complete_(net.size()) {
        lanes_.reserve(net.schedules().size());
        for (const schedule& s : net.schedules()) lanes_.emplace_back(s);
    }

    std::vector<std::size_t> run() {
        for (lane& l : lanes_) {
            port p{*this, l};
            l.machine.run_from(p, 0);
            l.machine.issue(p);
        }
        while (!deliverable_.empty()) {
            const std::size_t sent = deliverable_.back();
            deliverable_.pop_back();
            order_.push_back(sent);
            complete(sent);
            complete(net_.partner(sent));
        }
        for (const auto messages : {&lane_code::sends, &lane_code::receives})
            for (const lane& l : lanes_)
                for (const std::uint32_t n : l.code.*messages)
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

    // What a rank issues. A message is delivered when both ends are in flight.
    struct port {
        static constexpr bool locals_take_time = false;

        const lane_code* begin_chunk(std::int64_t) const { return &of.code; }
        void end_chunk() const {}
        void end_lane() const {}
        std::uint32_t segments(std::uint32_t) const { return 1; }
        void send(std::uint32_t n, std::uint32_t) const { all.start(all.net_.id(of.rank, n)); }
        void receive(std::uint32_t n, std::uint32_t) const { all.start(all.net_.id(of.rank, n)); }
        void start_stage(std::uint32_t) const {}  // check_form refuses stages
        void run_local(std::uint32_t n) const { all.order_.push_back(all.net_.id(of.rank, n)); }
        void completed(std::uint32_t n) const { all.complete_[all.net_.id(of.rank, n)] = true; }

        rehearsal& all;
        lane& of;
    };

    void start(std::size_t message) {
        in_flight_[message] = true;
        if (!in_flight_[net_.partner(message)]) return;
        deliverable_.push_back(net_.instruction(message).what == action::send ? message : net_.partner(message));
    }

    void complete(std::size_t message) {
        lane& l = lanes_[at(net_.rank(message))];
        port p{*this, l};
        l.machine.complete(p, static_cast<std::uint32_t>(net_.number(message)));
        l.machine.issue(p);
    }

    const network& net_;
    std::vector<lane> lanes_;               // by rank
    std::vector<bool> in_flight_;           // by id, of messages that have been issued
    std::vector<bool> complete_;            // by id
    std::vector<std::size_t> deliverable_;  // sends whose two ends are in flight
    std::vector<std::size_t> order_;
};

}  // namespace

std::vector<std::size_t> completion_order(const network& net) { return rehearsal(net).run(); }

}  // namespace terrace::detail::proof
