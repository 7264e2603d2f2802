//! Memory that is zeroed before it is given back, whoever used it.
//!
//! Types that zero themselves cannot reach the copies that libraries make: buffers that grew,
//! parsed trees, argument and environment blocks of children, the plaintext of TLS records. So it
//! is the allocator that zeroes, and OpenSSL is made to use it. What callers may rely on: once a
//! value is dropped and its tasks are gone, its bytes are nowhere on the heap.
#![expect(unsafe_code, reason = "allocators are, and OpenSSL offers this as a C function only")]

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, but for memory that is zeroed when it is freed. Growing and shrinking
/// always move, so that neither leaves anything behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZeroingAllocator;

// SAFETY: every block comes from and goes back to `System` with the layout it was asked for.
// `realloc` is the trait's own: a new block, a copy, and `dealloc` of the old one.
unsafe impl GlobalAlloc for ZeroingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller gives back a block of this layout that nobody else uses any more, so
        // all of it may be written, and read once it was.
        unsafe {
            block.write_bytes(0, layout.size());
            // A compiler leaves out what is written to memory that is freed next.
            zeroize::optimization_barrier(std::slice::from_raw_parts(block, layout.size()));
            System.dealloc(block, layout);
        }
    }
}

/// Has OpenSSL take its memory from [`ZeroingAllocator`]. Must be called before OpenSSL is used for
/// the first time; later it has no effect.
#[cfg(target_os = "linux")]
pub fn zero_memory_of_openssl() {
    // SAFETY: the functions keep the promises of malloc, realloc and free, and are there for ever.
    // OpenSSL refuses them once it has allocated, and then goes on with its own.
    let taken = unsafe { CRYPTO_set_mem_functions(c::allocate, c::reallocate, c::free) };
    debug_assert_eq!(taken, 1, "OpenSSL has allocated before");
}

/// Elsewhere OpenSSL is there for SSH and the cluster client only.
#[cfg(not(target_os = "linux"))]
pub fn zero_memory_of_openssl() {}

/// Zeroes what calls that have returned have left on the stack: registers that were saved, and what
/// the kernel keeps there when a signal comes, hold the last bytes that were copied or searched.
pub fn zero_stack() {
    /// The part of the stack that is overwritten: all that is known elsewhere than on Linux, and
    /// there what lies between the frames in use and the pages that are given back.
    const NEAR: usize = if cfg!(target_os = "linux") { 128 * 1024 } else { 512 * 1024 };

    zeroize::zeroize_stack::<NEAR>();
    #[cfg(target_os = "linux")]
    drop_stack();
}

/// Gives the pages below this call's frame back to the kernel, which hands out zeroed ones when
/// they are used again: however deep the stack has been, and it takes no memory.
#[cfg(target_os = "linux")]
#[inline(never)]
fn drop_stack() {
    use nix::libc;

    /// Pages that this function may itself be using.
    const OWN: usize = 16 * 1024;
    /// The largest page that stacks are made of.
    const PAGE: usize = 64 * 1024;
    /// How deep a stack is looked after: the usual limit. Where there is no limit, what lies further
    /// below a main thread's stack may be somebody else's soon.
    const DEEPEST: usize = 8 * 1024 * 1024;

    let mark = 0u8;
    let here = std::hint::black_box(&raw const mark);
    let Some((lowest, size)) = STACK.get().or_else(stack) else { return };
    STACK.set(Some((lowest, size)));
    let deepest = here.addr().saturating_sub(DEEPEST);
    let first = lowest.addr().max(deepest).next_multiple_of(PAGE);
    let end = here.addr().saturating_sub(OWN) / PAGE * PAGE;
    if first < end && end < lowest.addr() + size {
        // Where a part is not there yet, the rest is given back all the same.
        // SAFETY: only whole pages between the end of this thread's stack and its frames in use are
        // given back.
        unsafe {
            libc::madvise(lowest.with_addr(first), end - first, libc::MADV_DONTNEED);
        }
    }
}

#[cfg(target_os = "linux")]
type Stack = (*mut std::ffi::c_void, usize);

#[cfg(target_os = "linux")]
thread_local! {
    /// This thread's stack: to find out where the main thread's is, all that is in memory is read.
    static STACK: std::cell::Cell<Option<Stack>> = const { std::cell::Cell::new(None) };
}

/// The lowest address of this thread's stack, and how large it may get, in bytes.
#[cfg(target_os = "linux")]
fn stack() -> Option<Stack> {
    use nix::libc;

    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are filled before they are read, and destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let known =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (known == 0).then_some((lowest, size))
    }
}

/// Calls `work` and zeroes what it has left on the stack: for threads that go on afterwards.
pub fn on_clean_stack<T>(work: impl FnOnce() -> T) -> T {
    /// Its frame is below the caller's, so that all of it is zeroed.
    #[inline(never)]
    fn call<T>(work: impl FnOnce() -> T) -> T {
        work()
    }

    let result = call(work);
    zero_stack();
    result
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    /// `CRYPTO_set_mem_functions(3)`; 1 when the functions are used from now on.
    fn CRYPTO_set_mem_functions(
        allocate: c::Allocate,
        reallocate: c::Reallocate,
        free: c::Free,
    ) -> std::ffi::c_int;
}

/// C's interface to the allocator. C does not say how long a block is when it frees it, so that
/// stands before the block.
#[cfg(target_os = "linux")]
mod c {
    use std::alloc::{GlobalAlloc, Layout};
    use std::ffi::{c_char, c_int, c_void};

    use super::ZeroingAllocator;

    pub(super) type Allocate = unsafe extern "C" fn(usize, *const c_char, c_int) -> *mut c_void;
    pub(super) type Reallocate =
        unsafe extern "C" fn(*mut c_void, usize, *const c_char, c_int) -> *mut c_void;
    pub(super) type Free = unsafe extern "C" fn(*mut c_void, *const c_char, c_int);

    /// As large as C's strictest alignment, which blocks must have.
    const HEADER: usize = 16;

    fn layout(size: usize) -> Option<Layout> {
        Layout::from_size_align(size.checked_add(HEADER)?, HEADER).ok()
    }

    /// How long a block from [`allocate`] is.
    unsafe fn size_of_block(block: *mut c_void) -> usize {
        // SAFETY: the caller's block has its header before it.
        let size = unsafe { block.cast::<[u8; size_of::<usize>()]>().byte_sub(HEADER).read() };
        usize::from_ne_bytes(size)
    }

    pub(super) unsafe extern "C" fn allocate(
        size: usize,
        _file: *const c_char,
        _line: c_int,
    ) -> *mut c_void {
        let Some(layout) = layout(size) else { return std::ptr::null_mut() };
        // SAFETY: the layout is never empty, and the header has room for a size.
        unsafe {
            let start = ZeroingAllocator.alloc(layout);
            if start.is_null() {
                return std::ptr::null_mut();
            }
            start.cast::<[u8; size_of::<usize>()]>().write(size.to_ne_bytes());
            start.add(HEADER).cast()
        }
    }

    pub(super) unsafe extern "C" fn reallocate(
        block: *mut c_void,
        size: usize,
        file: *const c_char,
        line: c_int,
    ) -> *mut c_void {
        // SAFETY: `block` is null or from `allocate`, so its header says how long it is; at most
        // that much is copied, and the old block stays valid where there is no new one.
        unsafe {
            // As OpenSSL's own does it.
            if size == 0 {
                free(block, file, line);
                return std::ptr::null_mut();
            }
            let new = allocate(size, file, line);
            if !block.is_null() && !new.is_null() {
                let old = size_of_block(block);
                new.cast::<u8>().copy_from_nonoverlapping(block.cast(), old.min(size));
                free(block, file, line);
            }
            new
        }
    }

    pub(super) unsafe extern "C" fn free(block: *mut c_void, _file: *const c_char, _line: c_int) {
        if block.is_null() {
            return;
        }
        // SAFETY: `block` is from `allocate`: its header says with which layout.
        unsafe {
            if let Some(layout) = layout(size_of_block(block)) {
                ZeroingAllocator.dealloc(block.cast::<u8>().sub(HEADER), layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn blocks_for_c_keep_their_content_when_they_move_and_are_aligned() {
        let (file, line) = (std::ptr::null(), 0);
        // SAFETY: each block is used within its size and freed once.
        unsafe {
            let block = c::reallocate(std::ptr::null_mut(), 5, file, line);
            block.cast::<[u8; 5]>().write(*b"12345");
            let larger = c::reallocate(block, 100_000, file, line);
            assert_eq!(larger.cast::<[u8; 5]>().read(), *b"12345");
            assert_eq!(larger.align_offset(16), 0);
            let smaller = c::reallocate(larger, 3, file, line);
            assert_eq!(smaller.cast::<[u8; 3]>().read(), *b"123");
            c::free(smaller, file, line);
            c::free(std::ptr::null_mut(), file, line);
            let block = c::allocate(5, file, line);
            assert!(c::reallocate(block, 0, file, line).is_null(), "it was freed");
            assert!(c::allocate(usize::MAX, file, line).is_null());
        }
    }
}
