#pragma once

#include "base/partition.hpp"
#include "schedule/builder.hpp"

// What the registry's rows name. One file per algorithm.

namespace terrace {

void ring_reduce_scatter(builder& out, const group& g);
void ring_allgather(builder& out, const group& g);

void halving_reduce_scatter(builder& out, const group& g);
void halving_allgather(builder& out, const group& g);

void direct_reduce_scatter(builder& out, const group& g);
void direct_allgather(builder& out, const group& g);
void direct_reduce(builder& out, const group& g);
void direct_broadcast(builder& out, const group& g);
void direct_allreduce(builder& out, const group& g);

void tree_reduce(builder& out, const group& g);
void tree_broadcast(builder& out, const group& g);

void doubling_allreduce(builder& out, const group& g);
int doubling_rounds(int size);

void native_reduce_scatter(builder& out, const group& g);
void native_allgather(builder& out, const group& g);
void native_reduce(builder& out, const group& g);
void native_broadcast(builder& out, const group& g);
void native_allreduce(builder& out, const group& g);

}  // namespace terrace
