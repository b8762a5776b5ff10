#pragma once

// The headers for programs that use neither MPI nor CUDA, except <terrace/ucx.hpp> and <terrace/elastic.hpp>.

#include <terrace/buffer.hpp>
#include <terrace/communicator.hpp>
#include <terrace/error.hpp>
#include <terrace/gradients.hpp>
#include <terrace/loopback.hpp>
#include <terrace/message.hpp>
#include <terrace/options.hpp>
#include <terrace/plan.hpp>
#include <terrace/reproducible.hpp>
#include <terrace/request.hpp>
#include <terrace/statistics.hpp>
#include <terrace/types.hpp>
#include <terrace/version.hpp>
#include <terrace/window.hpp>
