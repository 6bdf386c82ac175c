/* What the kernels need of C: big-endian loads and stores, and the processor's CRC-32C where it has one. */

#ifndef KAVKA_NATIVE_H
#define KAVKA_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int16_t kavka_load16(const unsigned char *p) {
    return (int16_t)(uint16_t)((unsigned)p[0] << 8 | p[1]);
}

static inline uint32_t kavka_load_u32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline int32_t kavka_load32(const unsigned char *p) {
    return (int32_t)kavka_load_u32(p);
}

static inline int64_t kavka_load64(const unsigned char *p) {
    return (int64_t)((uint64_t)kavka_load_u32(p) << 32 | kavka_load_u32(p + 4));
}

static inline void kavka_store16(unsigned char *p, int16_t value) {
    p[0] = (unsigned char)((uint16_t)value >> 8);
    p[1] = (unsigned char)value;
}

static inline void kavka_store32(unsigned char *p, int32_t value) {
    uint32_t v = (uint32_t)value;
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

static inline void kavka_store64(unsigned char *p, int64_t value) {
    kavka_store32(p, (int32_t)((uint64_t)value >> 32));
    kavka_store32(p + 4, (int32_t)(uint64_t)value);
}

/* CRC-32C goes on from `crc` (0 at the start). kavka_crc32c_init says whether the processor has what it takes. */

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <immintrin.h>

/* A crc32 instruction waits three cycles for the one before it, so long data is summed as three lanes at once. The sum
   of a lane is then moved past the lanes behind it: multiplied by x^(8 * bytes) modulo the polynomial. A carry-less
   product of two reflected 32-bit polynomials, fed to crc32, is their product times x^33: hence the -33. */

#define KAVKA_LANE 512

static uint64_t kavka_past_one, kavka_past_two;

static inline uint32_t kavka_power_of_x(int exponent) {
    uint32_t power = 0x80000000u; /* x^0, reflected */
    while (exponent--)
        power = power >> 1 ^ (power & 1 ? 0x82F63B78u : 0);
    return power;
}

static inline int kavka_crc32c_init(void) {
    kavka_past_one = kavka_power_of_x(8 * KAVKA_LANE - 33);
    kavka_past_two = kavka_power_of_x(8 * 2 * KAVKA_LANE - 33);
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

__attribute__((target("sse4.2,pclmul")))
static inline uint64_t kavka_move(uint64_t crc, uint64_t past) {
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)past), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

static inline uint64_t kavka_word(const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

__attribute__((target("sse4.2,pclmul")))
static inline uint32_t kavka_crc32c(uint32_t start, const unsigned char *p, size_t size) {
    uint64_t crc = start ^ 0xFFFFFFFFu;
    for (; size >= 3 * KAVKA_LANE; p += 3 * KAVKA_LANE, size -= 3 * KAVKA_LANE) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < KAVKA_LANE; i += 8) {
            crc = _mm_crc32_u64(crc, kavka_word(p + i));
            second = _mm_crc32_u64(second, kavka_word(p + KAVKA_LANE + i));
            third = _mm_crc32_u64(third, kavka_word(p + 2 * KAVKA_LANE + i));
        }
        crc = kavka_move(crc, kavka_past_two) ^ kavka_move(second, kavka_past_one) ^ third;
    }
    for (; size >= 8; p += 8, size -= 8)
        crc = _mm_crc32_u64(crc, kavka_word(p));
    for (; size; p++, size--)
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

static inline int kavka_crc32c_init(void) {
    return 1;
}

static inline uint32_t kavka_crc32c(uint32_t start, const unsigned char *p, size_t size) {
    uint32_t crc = ~start;
    uint64_t word;
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&word, p, 8);
        crc = __crc32cd(crc, word);
    }
    for (; size; p++, size--)
        crc = __crc32cb(crc, *p);
    return ~crc;
}

#else

static inline int kavka_crc32c_init(void) {
    return 0;
}

static inline uint32_t kavka_crc32c(uint32_t start, const unsigned char *p, size_t size) {
    (void)start;
    (void)p;
    (void)size;
    return 0; /* never called */
}

#endif

#endif
