// Ranks that exchange values over their own connections. The ranks are threads.

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/socket_bootstrap.hpp"

namespace terrace::detail::test::socket_bootstrap_test {

namespace {

using namespace std::chrono_literals;

std::vector<network_interface> on_loopback() { return {{.name = "lo", .address = htonl(INADDR_LOOPBACK)}}; }

// Runs `body` on each rank with a team over sockets. Returns the ranks' results or error messages.
template <class Body>
std::vector<std::string> on_all(int ranks, const Body& body, std::chrono::duration<double> timeout = 60s) {
    loopback_world world(std::vector<int>{ranks});
    std::vector<std::string> results(at(ranks));
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
            try {
                team first = world.join(r).ranks;
                const auto boot = std::make_shared<socket_bootstrap>(first, on_loopback(), port_range{});
                boot->set_timeout(timeout);
                results[at(r)] = body(team(boot, r, ranks));
            } catch (const error& e) {
                results[at(r)] = e.what();
            }
        });
    threads.clear();
    return results;
}

std::string joined(const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& t : all) text += t + ' ';
    return text;
}

}  // namespace

TEST(socket_bootstrap, exchanges_values_of_any_length) {
    const std::string longest(1 << 20, 'x');
    for (const int ranks : {1, 2, 3, 8, 11})
        for (const std::string& got : on_all(ranks, [&](team t) {
                 for (int turn = 0; turn < 3; ++turn) t.exchange(longest);
                 return joined(t.exchange(t.rank() == 0 ? "" : std::to_string(t.rank())));
             })) {
            std::string expected = " ";
            for (int r = 1; r < ranks; ++r) expected += std::to_string(r) + ' ';
            EXPECT_EQ(got, expected);
        }
}

TEST(socket_bootstrap, serves_parts_in_any_order_and_without_ranks_that_are_gone) {
    const std::vector<std::string> got = on_all(6, [](team t) {
        team half = *t.split(t.rank() % 2, -t.rank());
        const std::string seen = joined(half.exchange(std::to_string(t.rank())));
        if (t.rank() == 0) return seen;  // does not take part again
        const std::vector<int> others{1, 2, 3, 4, 5};
        return seen + joined(t.part(others, "without-0").exchange(std::to_string(t.rank())));
    });
    EXPECT_EQ(got, (std::vector<std::string>{"4 2 0 ", "5 3 1 1 2 3 4 5 ", "4 2 0 1 2 3 4 5 ", "5 3 1 1 2 3 4 5 ",
                                             "4 2 0 1 2 3 4 5 ", "5 3 1 1 2 3 4 5 "}));
}

TEST(socket_bootstrap, names_who_is_missing) {
    const std::vector<std::string> got = on_all(
        4, [](team t) { return t.rank() == 2 ? "" : joined(t.exchange("here")); }, 0.2s);
    EXPECT_NE(got[0].find("waiting for rank 2 (at 127.0.0.1:"), std::string::npos) << got[0];
    EXPECT_NE(got[1].find("waiting for rank 0"), std::string::npos) << got[1];
    EXPECT_EQ(got[2], "");
}

// Any process can connect to the port. Connections without the key are ignored, and do not affect the ranks.
TEST(socket_bootstrap, hears_nobody_without_the_key) {
    const auto call = [](const std::string& place, std::string_view says) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(place.substr(place.find(':') + 1))));
        descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
        write_whole(fd.get(), says);
        return fd;
    };
    loopback_world world(std::vector<int>{2});
    std::string seen[2];
    std::vector<std::jthread> threads;
    for (int r = 0; r < 2; ++r)
        threads.emplace_back([&, r] {
            team first = world.join(r).ranks;
            const auto boot = std::make_shared<socket_bootstrap>(first, on_loopback(), port_range{});
            boot->set_timeout(60s);
            std::vector<descriptor> strangers;
            for (int n = 0; n < 100 && r == 1; ++n) {
                strangers.push_back(call(boot->place_of(0), ""));
                strangers.push_back(call(boot->place_of(0), std::string(200, 'x')));
            }
            seen[r] = joined(team(boot, r, 2).exchange(std::to_string(r)));
        });
    threads.clear();
    EXPECT_EQ(seen[0], "0 1 ");
    EXPECT_EQ(seen[1], "0 1 ");
}

}  // namespace terrace::detail::test::socket_bootstrap_test
