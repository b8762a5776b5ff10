#include "schedule/verify/proof.hpp"

namespace terrace::proof {

namespace {

// Runs everything under the executor's rules at their tightest: a rank has one send and one receive in flight, takes
// both in program order, and a send completes only with its receive. What can happen stays possible until it happens,
// so that all orders of events get equally far: one run shows all.
class rehearsal {
public:
    explicit rehearsal(const network& net) : net_(net), waits_(net.size()) {
        for (const schedule& s : net.schedules())
            for (std::size_t n = 0; n < s.instrs.size(); ++n) {
                const std::size_t id = net.id(s.rank, n);
                waits_[id] = s.instrs[n].waits;
                if (waits_[id] == 0) free_.push_back(id);
            }
        for (std::vector<queue>* kind : {&sends_, &receives_}) kind->resize(net.schedules().size());
        for (std::size_t id = 0; id < net.size(); ++id)
            if (is_message(net.instruction(id).what)) queue_of(id).line.push_back(id);
    }

    std::vector<std::size_t> run() {
        while (!free_.empty()) {
            const std::size_t id = free_.back();
            free_.pop_back();
            if (!is_message(net_.instruction(id).what)) {
                order_.push_back(id);
                release(id);
            } else if (in_flight(id) && in_flight(net_.partner(id))) {
                deliver(id, net_.partner(id));
            }
        }
        for (const std::vector<queue>* kind : {&sends_, &receives_})
            for (const queue& q : *kind)
                if (q.done < q.line.size()) net_.refuse(q.line[q.done], "never completes: a deadlock");
        return std::move(order_);
    }

private:
    struct queue {
        std::vector<std::size_t> line;  // ids in program order
        std::size_t done = 0;
    };

    queue& queue_of(std::size_t id) {
        return (net_.instruction(id).what == action::send ? sends_ : receives_)[at(net_.rank(id))];
    }

    bool in_flight(std::size_t id) {
        const queue& q = queue_of(id);
        return waits_[id] == 0 && q.done < q.line.size() && q.line[q.done] == id;
    }

    void deliver(std::size_t a, std::size_t b) {
        order_.push_back(net_.instruction(a).what == action::send ? a : b);
        for (std::size_t id : {a, b}) {
            queue& q = queue_of(id);
            if (++q.done < q.line.size() && waits_[q.line[q.done]] == 0) free_.push_back(q.line[q.done]);
            release(id);
        }
    }

    void release(std::size_t id) {
        net_.for_each_successor(id, [&](std::size_t after) {
            if (--waits_[after] == 0) free_.push_back(after);
        });
    }

    const network& net_;
    std::vector<std::uint32_t> waits_;     // by id, still to come
    std::vector<queue> sends_, receives_;  // by rank
    std::vector<std::size_t> free_;        // to look at: may have become able to complete
    std::vector<std::size_t> order_;
};

}  // namespace

std::vector<std::size_t> completion_order(const network& net) { return rehearsal(net).run(); }

}  // namespace terrace::proof
