// The tails of gelu and gelu_tanh by table lookup, for a >= 0:
//
//   gelu       1 - Phi(a)
//   gelu_tanh  1 / (1 + exp(2 * sqrt(2 / pi) * (a + 0.044715 * a^3)))
//
// on vectors of 16 floats that can look up a table in registers. Included by ISA sources.
//
// There are sixteen intervals of length 0.36, centered at its multiples. Each has a polynomial of
// degree 4 in a / 0.36 - i that meets the function at the five Chebyshev nodes. In the last
// interval, from 5.22 on, it is 0. Off by at most 2^-22.
#pragma once

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Rows by degree, the highest first; each has a coefficient for every interval.
using TailTable = float[5][16];

alignas(64) constexpr TailTable kGeluTail{
    {1.36973870e-16f, -2.68664764e-04f, -3.82844592e-04f, -3.07506358e-04f, -1.32339628e-04f,
     2.29461111e-05f, 9.66768421e-05f, 9.81743578e-05f, 6.73130926e-05f, 3.57620629e-05f,
     1.54656809e-05f, 5.57640305e-06f, 1.69960333e-06f, 4.41713041e-07f, 9.84724622e-08f, 0.0f},
    {3.08340183e-03f, 2.51757191e-03f, 1.15209480e-03f, -2.78899068e-04f, -1.16953789e-03f,
     -1.36779237e-03f, -1.10130874e-03f, -6.94910530e-04f, -3.59905360e-04f, -1.56450682e-04f,
     -5.78071558e-05f, -1.82994809e-05f, -4.98954751e-06f, -1.17621346e-06f, -2.40391813e-07f,
     0.0f},
    {-9.27235916e-17f, 8.72247852e-03f, 1.43629769e-02f, 1.55821163e-02f, 1.31999291e-02f,
     9.20880400e-03f, 5.41776977e-03f, 2.72218115e-03f, 1.17698568e-03f, 4.40045173e-04f,
     1.42737554e-04f, 4.02645455e-05f, 9.89486671e-06f, 2.12116925e-06f, 3.97068931e-07f, 0.0f},
    {-1.43618047e-01f, -1.34607002e-01f, -1.10826403e-01f, -8.01558346e-02f, -5.09263016e-02f,
     -2.84225177e-02f, -1.39345918e-02f, -6.00115163e-03f, -2.27028527e-03f, -7.54445908e-04f,
     -2.20228438e-04f, -5.64691909e-05f, -1.27185403e-05f, -2.51619690e-06f, -4.37247280e-07f,
     0.0f},
    {5.00000000e-01f, 3.59423578e-01f, 2.35762492e-01f, 1.40071094e-01f, 7.49337003e-02f,
     3.59303206e-02f, 1.53863346e-02f, 5.86774154e-03f, 1.98837579e-03f, 5.97648497e-04f,
     1.59108589e-04f, 3.74748815e-05f, 7.80146001e-06f, 1.43437455e-06f, 2.32765927e-07f, 0.0f},
};

alignas(64) constexpr TailTable kGeluTanhTail{
    {2.03888962e-15f, -2.73984886e-04f, -3.86190950e-04f, -3.03360430e-04f, -1.26206432e-04f,
     2.30178139e-05f, 9.20935563e-05f, 9.52089686e-05f, 6.78434008e-05f, 3.74271804e-05f,
     1.63316236e-05f, 5.60586841e-06f, 1.49265293e-06f, 3.03324128e-07f, 4.62583110e-08f, 0.0f},
    {3.09832883e-03f, 2.52048718e-03f, 1.13488408e-03f, -2.94629834e-04f, -1.16160826e-03f,
     -1.34616264e-03f, -1.09058013e-03f, -7.00853765e-04f, -3.70370544e-04f, -1.61636141e-04f,
     -5.76607199e-05f, -1.65376532e-05f, -3.74309570e-06f, -6.56048428e-07f, -8.73901982e-08f,
     0.0f},
    {-2.77313716e-16f, 8.75565596e-03f, 1.43723525e-02f, 1.55330207e-02f, 1.31367370e-02f,
     9.19729006e-03f, 5.46038337e-03f, 2.76998268e-03f, 1.19596836e-03f, 4.34215617e-04f,
     1.30324363e-04f, 3.17133563e-05f, 6.13198381e-06f, 9.23322318e-07f, 1.06129896e-07f, 0.0f},
    {-1.43618017e-01f, -1.34567514e-01f, -1.10733747e-01f, -8.01036134e-02f, -5.09988144e-02f,
     -2.85768453e-02f, -1.40519962e-02f, -6.01949217e-03f, -2.21964996e-03f, -6.93473674e-04f,
     -1.80218325e-04f, -3.81962273e-05f, -6.47013121e-06f, -8.58333578e-07f, -8.73845849e-08f,
     0.0f},
    {5.00000000e-01f, 3.59437585e-01f, 2.35846624e-01f, 1.40237689e-01f, 7.50925839e-02f,
     3.59669290e-02f, 1.52778802e-02f, 5.69061609e-03f, 1.83233572e-03f, 5.01588918e-04f,
     1.14605617e-04f, 2.14381271e-05f, 3.21892526e-06f, 3.80302396e-07f, 3.46554785e-08f, 0.0f},
};

template <typename V>
concept PicksFromSixteen = requires(typename V::Vector v) { V::pick16(v, v); };

template <typename V>
CPUACCEL_INLINE typename V::Vector gelu_tail(typename V::Vector a, const TailTable& table) {
  constexpr float kPerLength = 1.0f / 0.36f;
  // Adding 2^23 rounds to an integer, which is then in the lowest bits.
  constexpr float kIntegers = 8388608.0f;
  const auto index = V::fma(a, V::set1(kPerLength), V::set1(kIntegers));
  const auto d = V::fma(a, V::set1(kPerLength), V::subtract(V::set1(kIntegers), index));
  auto sum = V::pick16(V::load(table[0]), index);
  for (int i = 1; i < 5; ++i) {
    sum = V::fma(sum, d, V::pick16(V::load(table[i]), index));
  }
  return sum;
}

// max(x, 0) - |x| * tail(|x|). From 5.22 on the tail is 0.
template <typename V>
CPUACCEL_INLINE typename V::Vector gelu_by_tail(typename V::Vector x, const TailTable& table) {
  const auto a = V::min(V::set1(5.4f), V::max(V::negative(x), x));
  return V::subtract(V::max(V::set1(0.0f), x), V::multiply(a, gelu_tail<V>(a, table)));
}

}  // namespace
}  // namespace cpuaccel::kernels
