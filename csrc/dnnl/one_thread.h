// oneDNN plans a primitive for as many threads as OpenMP would give the thread that asks.
#pragma once

namespace cpuaccel::dnnl_layer {

// While it lives, what the calling thread makes of oneDNN is made for one thread.
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
