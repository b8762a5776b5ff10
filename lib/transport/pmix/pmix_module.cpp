// The module for PMIx: ranks exchange values by PMIx, which their launcher provides.

#include "transport/pmix/pmix_module.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pmix.h>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

namespace terrace::detail {

namespace {

void check(pmix_status_t status, const char* call, const char* advice = "") {
    if (status != PMIX_SUCCESS)
        throw transport_error("pmix", call, status, std::string(PMIx_Error_string(status)) + advice);
}

pmix_proc_t rank_of(const pmix_proc_t& like, pmix_rank_t rank) {
    pmix_proc_t p = like;
    p.rank = rank;
    return p;
}

// This process's connection to its launcher, until leave(), or the end of the process.
struct session {
    pmix_proc_t self{};

    session() {
        check(
            PMIx_Init(&self, nullptr, 0), "PMIx_Init",
            ": no launcher with PMIx has started this process; use mpirun, prterun or srun --mpi=pmix, or a directory "
            "(TERRACE_BOOTSTRAP=file:DIR)");
    }
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() { PMIx_Finalize(nullptr, 0); }

    int size() const {
        const pmix_proc_t job = rank_of(self, PMIX_RANK_WILDCARD);
        pmix_value_t* value = nullptr;
        check(PMIx_Get(&job, PMIX_JOB_SIZE, nullptr, 0, &value), "PMIx_Get");
        const int size = static_cast<int>(value->data.uint32);
        PMIX_VALUE_RELEASE(value);
        return size;
    }
};

// State of a fence, which may end after its wait was given up.
struct fence_state {
    std::mutex guard;
    std::condition_variable changed;
    std::optional<pmix_status_t> result;
};

class pmix_bootstrap final : public bootstrap {
public:
    pmix_bootstrap(const session& by, int size, std::chrono::duration<double> timeout)
        : bootstrap(this_node()), self_(by.self), size_(static_cast<std::size_t>(size)), timeout_(timeout) {
        static std::atomic<unsigned> made{0};
        generation_ = made++;
    }

    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                      const wait_hook& look) override {
        const std::string name = fmt::format("terrace.{}.{}", generation_, key);
        std::string text = fmt::format("={}", value);  // not all launchers keep empty values
        pmix_value_t own{};
        own.type = PMIX_BYTE_OBJECT;
        own.data.bo = {text.data(), text.size()};
        check(PMIx_Put(PMIX_GLOBAL, name.c_str(), &own), "PMIx_Put");
        check(PMIx_Commit(), "PMIx_Commit");
        fence(ranks, look);
        std::vector<std::string> all;
        for (const int r : ranks) all.push_back(value_of(r, name));
        return all;
    }

private:
    std::string value_of(int rank, const std::string& name) const {
        const pmix_proc_t from = rank_of(self_, static_cast<pmix_rank_t>(rank));
        pmix_value_t* value = nullptr;
        check(PMIx_Get(&from, name.c_str(), nullptr, 0, &value), "PMIx_Get");
        std::string text(value->data.bo.bytes + 1, value->data.bo.size - 1);
        PMIX_VALUE_RELEASE(value);
        return text;
    }

    // Not all launchers support fences of a part of the ranks, or of all ranks as a list: Slurm's does not.
    void fence(std::span<const int> ranks, const wait_hook& look) const {
        if (ranks.size() == 1) return;
        std::vector<pmix_proc_t> procs;
        if (ranks.size() == size_) procs.push_back(rank_of(self_, PMIX_RANK_WILDCARD));
        else
            for (const int r : ranks) procs.push_back(rank_of(self_, static_cast<pmix_rank_t>(r)));
        std::sort(procs.begin(), procs.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
        bool collect = true;
        pmix_info_t how;
        PMIX_INFO_LOAD(&how, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
        auto* shared = new std::shared_ptr<fence_state>(std::make_shared<fence_state>());
        const std::shared_ptr<fence_state> state = *shared;
        const auto ended = [](pmix_status_t status, void* data) {
            const std::unique_ptr<std::shared_ptr<fence_state>> owned(static_cast<std::shared_ptr<fence_state>*>(data));
            const std::lock_guard lock((*owned)->guard);
            (*owned)->result = status;
            (*owned)->changed.notify_all();
        };
        const pmix_status_t begun = PMIx_Fence_nb(procs.data(), procs.size(), &how, 1, ended, shared);
        if (begun == PMIX_OPERATION_SUCCEEDED || begun != PMIX_SUCCESS) delete shared;
        if (begun == PMIX_OPERATION_SUCCEEDED) return;
        check(begun, "PMIx_Fence_nb");
        std::unique_lock lock(state->guard);
        const auto is_over = [&] { return state->result.has_value(); };
        const auto begin = std::chrono::steady_clock::now();
        constexpr std::chrono::milliseconds between_looks(5);
        while (!state->changed.wait_for(lock, between_looks, is_over)) {
            if (look) look();
            if (timeout_.count() <= 0 || std::chrono::steady_clock::now() - begin <= timeout_) continue;
            throw timeout_error(fmt::format(
                "timed out after {:g} s (options::timeout), waiting for all {} ranks at a fence of PMIx, which does "
                "not say who is missing",
                timeout_.count(), ranks.size()));
        }
        check(*state->result, "PMIx_Fence_nb");
    }

    const pmix_proc_t self_;
    const std::size_t size_;  // of the job
    const std::chrono::duration<double> timeout_;
    unsigned generation_ = 0;  // bootstraps that this process has made before
};

std::optional<session> to_launcher;

launched_ranks join(std::chrono::duration<double> timeout) {
    if (!to_launcher) to_launcher.emplace();
    const int size = to_launcher->size();
    return {std::make_shared<pmix_bootstrap>(*to_launcher, size, timeout), static_cast<int>(to_launcher->self.rank),
            size};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const pmix_module terrace_pmix_module{
    .head = {.version = header_version, .bytes = sizeof(pmix_module)},
    .library_version = PMIx_Get_version,
    .join = join,
    .leave = []() noexcept { to_launcher.reset(); },
};

}  // namespace terrace::detail
