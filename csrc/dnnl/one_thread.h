// OneThread: makes oneDNN create primitives for a single thread. oneDNN plans a primitive for as
// many threads as OpenMP would give the calling thread.
#pragma once

namespace cpuaccel::dnnl_layer {

// While an instance lives, oneDNN objects that the calling thread creates are for one thread.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace cpuaccel::dnnl_layer
