// Control messages: an additional service, and messages that no service accepts.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "control/router.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test::control_router_test {

namespace {

// A seventh service: its row, and its class.
constexpr std::array<service_row, 7> seven_services = [] {
    std::array<service_row, 7> rows{};
    std::copy(control_services.begin(), control_services.end(), rows.begin());
    rows.back() = {"echo", 2};
    return rows;
}();

class echo final : public control_service {
public:
    enum class kind : std::uint8_t { call, answer };
    struct words {
        std::uint64_t value = 0, mark = 0;
    };

    explicit echo(control_router& router) : control_service(router, seven_services.size() - 1) {}
    void call(int peer, const control_place& where, std::uint64_t value) {
        send_control(peer, kind::call, where, words{value, 7});
    }

    std::vector<std::pair<int, control_frame>> answers;

private:
    void receive(int from, const control_frame& f) override {
        if (static_cast<kind>(f.kind) == kind::answer) return void(answers.emplace_back(from, f));
        send_control(from, kind::answer, {f.epoch, f.number}, words{2 * f.get<words>().value, f.get<words>().mark});
    }
};

struct two_ranks {
    loopback_world world{std::vector{2}};
    endpoint nets[2]{{world.join(0), 1}, {world.join(1), 1}};
};

std::string refusal(const control_frame& f) {
    two_ranks both;
    control_router router(both.nets[0]);
    both.nets[1].wire().send_control(0, f.message());
    router.receive();
    return both.nets[0].fault().value_or(transport_fault{}).message;
}

}  // namespace

TEST(control_router, a_seventh_service_is_a_row_and_a_class) {
    two_ranks both;
    control_router router_0(both.nets[0], seven_services), router_1(both.nets[1], seven_services);
    echo caller(router_0), other(router_1);
    caller.call(1, {65535, 4000000000}, 21);
    router_1.receive();
    router_0.receive();
    ASSERT_EQ(caller.answers.size(), 1U);
    const auto& [from, f] = caller.answers.front();
    EXPECT_EQ(from, 1);
    EXPECT_EQ(f.epoch, 65535);
    EXPECT_EQ(f.number, 4000000000);
    EXPECT_EQ(f.get<echo::words>().value, 42U);
    EXPECT_EQ(f.get<echo::words>().mark, 7U);
    EXPECT_FALSE(both.nets[0].fault() || both.nets[1].fault());
}

TEST(control_router, what_no_service_takes_is_a_failure_that_names_it) {
    EXPECT_EQ(refusal({.service = 6, .kind = 1}),
              "rank 1 of the plan has sent a control message of kind 1 of service 6, which this rank does not know; do "
              "all ranks run the same version of Terrace?");
    const auto last = static_cast<std::uint8_t>(service::membership);
    EXPECT_NE(refusal({.service = last, .kind = 2}).find("kind 2 of service membership"), std::string::npos);
    EXPECT_NE(refusal({.service = last, .kind = 0}).find("kind 0 of service membership"), std::string::npos)
        << "nobody runs it here";
}

}  // namespace terrace::detail::test::control_router_test
