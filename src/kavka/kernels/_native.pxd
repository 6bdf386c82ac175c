# The declarations of _native.h, for `from cython.cimports.kavka.kernels._native import ...`.

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t


cdef extern from "_native.h" nogil:
    int16_t load16 "kavka_load16"(const unsigned char *p)
    int32_t load32 "kavka_load32"(const unsigned char *p)
    uint32_t load_u32 "kavka_load_u32"(const unsigned char *p)
    int64_t load64 "kavka_load64"(const unsigned char *p)
    void store16 "kavka_store16"(unsigned char *p, int16_t value)
    void store32 "kavka_store32"(unsigned char *p, int32_t value)
    void store64 "kavka_store64"(unsigned char *p, int64_t value)
    bint crc32c_init "kavka_crc32c_init"()
    uint32_t native_crc32c "kavka_crc32c"(uint32_t start, const unsigned char *p, size_t size)


cdef extern from "Python.h":
    double string_to_double "PyOS_string_to_double"(const char *text, char **end, void *overflow)
