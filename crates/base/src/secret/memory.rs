//! An allocator that zeroes memory when it is freed.
//!
//! Types that zero themselves do not cover the copies that libraries make: buffers that grew, parsed
//! trees, argument and environment blocks of children, the plaintext of TLS records. The allocator
//! covers all of them. Callers may rely on this: once a value is dropped, its bytes are not on the
//! heap. It does not cover stacks, registers, and the memory that C libraries allocate. [`wipe_stack`]
//! covers the part of a stack that is about to be copied to the heap.
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, which zeroes memory before it is freed. A reallocation always moves the
/// block, so that growing and shrinking do not leave bytes behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZeroingAllocator;

// SAFETY: each block is allocated and freed by `System` with the same layout. `realloc` is the
// trait's default: a new block, a copy, and `dealloc` of the old one.
unsafe impl GlobalAlloc for ZeroingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a block of this layout that is no longer in use, so all of it may
        // be written, and read after the write.
        unsafe {
            block.write_bytes(0, layout.size());
            // Without the barrier, the compiler removes the write because the memory is freed next.
            zeroize::optimization_barrier(std::slice::from_raw_parts(block, layout.size()));
            System.dealloc(block, layout);
        }
    }
}

/// More than the deepest calls that handle a secret use, and a fraction of the smallest stack.
const WIPED: usize = 256 * 1024;

/// Overwrites what calls that have returned left on the stack of this thread. A future is copied from the
/// stack to the heap with bytes that it has not written yet, and these can be the rest of a secret.
#[inline(never)]
pub fn wipe_stack() {
    #[expect(clippy::large_stack_arrays, reason = "it is there for the stack that it uses")]
    let bytes = [0_u8; WIPED];
    zeroize::optimization_barrier(&bytes[..]);
}
