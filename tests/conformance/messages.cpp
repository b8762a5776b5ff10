// Point-to-point messages: requirements for every transport, written once.

#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "support/bad_calls.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"

namespace terrace::detail::test {

namespace {

class point_to_point_conformance : public testing::TestWithParam<world> {
protected:
    // Runs `body` on all ranks of a communicator of each size. `body` returns its number of errors.
    template <class Body>
    void expect_right(const Body& body) {
        for (const int ranks : GetParam().sizes) {
            const report seen = GetParam().run(plan_for(ranks), [&](communicator& comm) {
                return std::vector{outcome{body(comm), 0}};
            });
            for (std::size_t rank = 0; rank < seen.size(); ++rank)
                EXPECT_EQ(seen[rank][0].wrong, 0) << "rank " << rank << " of " << ranks;
        }
    }
};

// Elements of messages that go inline, eagerly, by rendezvous, and in several segments.
constexpr std::int64_t sizes[] = {0, 1, 4, 5, 1000, 2048, 2049, 40'000, 300'007};

std::vector<float> payload(int from, int to, std::int64_t count, int salt) {
    std::vector<float> data(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<float>((static_cast<int>(i % 97) + 13 * from + 7 * to + salt) % 1000);
    return data;
}

}  // namespace

// Each rank exchanges messages with every rank, itself too. Some receives are started before the sends, some after.
TEST_P(point_to_point_conformance, all_sizes_between_all_pairs) {
    expect_right([](communicator& comm) {
        const int me = comm.rank(), n = comm.size();
        std::int64_t wrong = 0;
        int salt = 0;
        for (const std::int64_t count : sizes) {
            ++salt;
            std::vector<std::vector<float>> sent, got;
            std::vector<received> what(static_cast<std::size_t>(n));
            std::vector<request> requests;
            for (int r = 0; r < n; ++r) {
                sent.push_back(payload(me, r, count, salt));
                got.emplace_back(static_cast<std::size_t>(count) + 3, -1.0f);
            }
            const auto receive = [&](int r) {
                const auto i = static_cast<std::size_t>(r);
                requests.push_back(comm.recv_async(got[i], r, salt, &what[i]));
            };
            for (int r = 0; r < n; r += 2) receive(r);
            for (int r = 0; r < n; ++r)
                requests.push_back(comm.send_async(std::as_const(sent[static_cast<std::size_t>(r)]), r, salt));
            for (int r = 1; r < n; r += 2) receive(r);
            wait_all(requests);
            for (int r = 0; r < n; ++r) {
                const auto i = static_cast<std::size_t>(r);
                std::vector<float> expected = payload(r, me, count, salt);
                expected.resize(expected.size() + 3, -1.0f);
                wrong += got[i] != expected || what[i].source != r || what[i].count != count;
            }
        }
        return wrong;
    });
}

// Messages of one rank and tag arrive in order, whatever their sizes. The receiver chooses the order of the tags.
TEST_P(point_to_point_conformance, messages_of_one_pair_and_tag_keep_their_order) {
    expect_right([](communicator& comm) {
        constexpr int messages = 200;  // more than may be in flight
        const int n = comm.size(), to = (comm.rank() + 1) % n, from = (comm.rank() + n - 1) % n;
        const auto count_of = [](int m) { return static_cast<std::size_t>(m % 7 == 0 ? 9000 : 1 + m * 37 % 1500); };
        std::vector<std::vector<int>> out;
        std::vector<request> requests;
        for (int m = 0; m < messages; ++m) {
            out.emplace_back(count_of(m), m);
            requests.push_back(comm.send_async(std::as_const(out.back()), to, m % 3));
        }
        std::int64_t wrong = 0;
        for (const int tag : {2, 0, 1})
            for (int m = tag; m < messages; m += 3) {
                std::vector<int> in(10'000);
                const received r = comm.recv(in, m % 2 == 0 ? from : any_source, tag);
                wrong += r.source != from || r.count != static_cast<std::int64_t>(count_of(m)) || in[0] != m;
            }
        wait_all(requests);
        return wrong;
    });
}

TEST_P(point_to_point_conformance, any_source_gets_all_there_are) {
    expect_right([](communicator& comm) {
        const int n = comm.size();
        std::vector<std::int64_t> data(2000, comm.rank());
        std::int64_t wrong = 0;
        if (comm.rank() != 0) {
            for (int i = 0; i < 3; ++i) comm.send(std::span(data).first(i == 1 ? 2000 : 2), 0, 5);
        } else {
            std::vector<int> seen(static_cast<std::size_t>(n));
            for (int i = 0; i < 3 * (n - 1); ++i) {
                std::vector<std::int64_t> in(2000);
                const received r = comm.recv(in, any_source, 5);
                wrong += in[0] != r.source;
                ++seen[static_cast<std::size_t>(r.source)];
            }
            for (int r = 1; r < n; ++r) wrong += seen[static_cast<std::size_t>(r)] != 3;
        }
        return wrong;
    });
}

// Ranks may make messages and collectives in different orders, even if their collectives are compared first.
TEST_P(point_to_point_conformance, messages_and_collectives_do_not_wait_for_each_other) {
    expect_right([](communicator& comm) {
        const int n = comm.size(), me = comm.rank();
        std::int64_t wrong = 0;
        for (const std::int64_t count : {std::int64_t{3}, std::int64_t{100'000}})
            for (int round = 0; round < 2; ++round) {
                std::vector<double> data(static_cast<std::size_t>(count), me),
                    sum(static_cast<std::size_t>(count) + 7, 1);
                if (me % 2 == 0 && me + 1 < n) {
                    comm.send(data, me + 1);
                    comm.allreduce(sum);
                } else {
                    request r = comm.allreduce_async(sum);
                    if (me % 2 == 1) wrong += comm.recv(data, me - 1).count != count || data.back() != me - 1;
                    r.wait();
                }
                wrong += sum.front() != n || sum.back() != n;
            }
        return wrong;
    });
}

TEST_P(point_to_point_conformance, a_message_that_does_not_fit_is_an_error_that_breaks_nothing) {
    expect_right([](communicator& comm) {
        const int n = comm.size(), to = (comm.rank() + 1) % n, from = (comm.rank() + n - 1) % n;
        std::int64_t wrong = 0;
        for (const std::size_t count : {std::size_t{4}, std::size_t{1000}, std::size_t{50'000}}) {
            std::vector<float> out(count, 1), in(count - 1, 7), others(count);
            request sent = comm.send_async(std::as_const(out), to, 1),
                    second = comm.send_async(std::as_const(out), to, 1);
            const auto refused = [&](auto& into, const std::string& why) {
                try {
                    comm.recv(into, from, 1);
                    ++wrong;
                } catch (const usage_error& e) {
                    wrong += std::string(e.what()).find(why) == std::string::npos;
                }
            };
            refused(in, fmt::format("of rank {} with tag 1 has {} float32, but the buffer has room for {}", from, count,
                                    count - 1));
            std::vector<int> ints(count);
            refused(ints, fmt::format("has {} float32, but the buffer is of {} int32", count, count));
            wrong += std::count(in.begin(), in.end(), 7) != static_cast<std::ptrdiff_t>(in.size());
            sent.wait();
            second.wait();
            request again = comm.send_async(std::as_const(out), to, 1);
            wrong += comm.recv(others, from, 1).count != static_cast<std::int64_t>(count) || others != out;
            again.wait();
            comm.allreduce(others);
            wrong += others[0] != static_cast<float>(n);
        }
        return wrong;
    });
}

namespace {

// A random message. All ranks know all messages.
struct random_message {
    int from = 0, to = 0, tag = 0;
    std::int64_t count = 0;  // floats, 4 MiB at most
};

std::vector<random_message> messages_at_random(int ranks, int each, dice& d) {
    constexpr std::size_t longest[] = {1, 5, 2049, 50'000, (4 << 20) / sizeof(float) + 1};
    std::vector<random_message> all;
    for (int m = 0; m < ranks * each; ++m) {
        const std::size_t most = m % 50 == 7 ? longest[4] : longest[d.below(4)];
        all.push_back({static_cast<int>(d.below(static_cast<std::size_t>(ranks))),
                       static_cast<int>(d.below(static_cast<std::size_t>(ranks))), static_cast<int>(d.below(6)),
                       static_cast<std::int64_t>(d.below(most))});
    }
    return all;
}

}  // namespace

// Tags 0 to 2 are received from any source, the others from their sender.
TEST_P(point_to_point_conformance, messages_at_random_arrive_whole_and_in_order) {
    expect_right([](communicator& comm) {
        dice common(seed());
        const std::vector<random_message> all = messages_at_random(comm.size(), 40, common);
        dice own(seed() + static_cast<std::uint64_t>(comm.rank()));
        std::vector<std::vector<float>> data;
        std::vector<request> sends;
        std::vector<int> mine;  // messages to this rank, in the order received
        for (int m = 0; m < static_cast<int>(all.size()); ++m) {
            const random_message& what = all[static_cast<std::size_t>(m)];
            if (what.to == comm.rank()) mine.push_back(m);
            if (what.from != comm.rank()) continue;
            data.push_back(payload(what.from, what.to, what.count, m));
            sends.push_back(comm.send_async(std::as_const(data.back()), what.to, what.tag));
        }
        std::stable_sort(mine.begin(), mine.end(), [&, first = own.below(6)](int a, int b) {
            const auto turn = [&](int m) {
                return (static_cast<std::size_t>(all[static_cast<std::size_t>(m)].tag) + first) % 6;
            };
            return turn(a) < turn(b);
        });
        std::int64_t wrong = 0;
        std::vector<float> in((4 << 20) / sizeof(float));
        std::set<int> missing(mine.begin(), mine.end());
        for (const int m : mine) {
            const random_message& expected = all[static_cast<std::size_t>(m)];
            const received got = comm.recv(in, expected.tag < 3 ? any_source : expected.from, expected.tag);
            // The first missing message of the sender with this tag.
            const auto first = std::find_if(missing.begin(), missing.end(), [&](int other) {
                const random_message& o = all[static_cast<std::size_t>(other)];
                return o.from == got.source && o.tag == expected.tag;
            });
            if (first == missing.end()) return wrong + 1;
            const random_message& is = all[static_cast<std::size_t>(*first)];
            const std::vector<float> sent = payload(is.from, is.to, is.count, *first);
            wrong += got.count != is.count || !std::equal(sent.begin(), sent.end(), in.begin());
            missing.erase(first);
        }
        wait_all(sends);
        return wrong + static_cast<std::int64_t>(missing.size());
    });
}

// NCCL has neither tags nor a receive from any source, so programs for device buffers have nothing to run here
// (gpu_calls shows the error).
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(point_to_point_conformance);
INSTANTIATE_TEST_SUITE_P(, point_to_point_conformance, testing::ValuesIn(host_worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
