#pragma once

// Everything that needs neither MPI nor CUDA.
#include <terrace/communicator.hpp>
#include <terrace/error.hpp>
#include <terrace/options.hpp>
#include <terrace/plan.hpp>
#include <terrace/types.hpp>
#include <terrace/version.hpp>
#include <terrace/window.hpp>
