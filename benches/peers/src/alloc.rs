//! An allocator that counts.
//!
//! Not the crate that the gateway's tests use: that one counts always and copies on every `realloc`,
//! which would make peers that allocate slower than they are. This one costs timed runs a load and a
//! branch.

#![expect(unsafe_code, reason = "allocators are")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub(crate) struct Counting;

static IS_ON: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Runs `f`, and says how often it allocated or reallocated.
pub(crate) fn count(f: impl FnOnce()) -> u64 {
    ALLOCATIONS.store(0, Relaxed);
    IS_ON.store(true, Relaxed);
    f();
    IS_ON.store(false, Relaxed);
    ALLOCATIONS.load(Relaxed)
}

#[inline]
fn note() {
    if IS_ON.load(Relaxed) {
        ALLOCATIONS.fetch_add(1, Relaxed);
    }
}

// SAFETY: every method passes its arguments on to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
