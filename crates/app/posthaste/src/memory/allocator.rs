//! How the C library's allocator gives memory back.

/// Allocations of this size and more are mapped on their own, and go back to the system when freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: libc::c_int = 1024 * 1024;

/// Has large allocations given back when they are freed. Left to itself, glibc raises that bound to
/// the size of the first large block freed (up to 32 MiB). The 19 MiB that each password hash takes
/// then come from arenas of the threads that hashed, and stay there. That is half a gigabyte after
/// some hundred logins.
///
/// Called before there are threads. Elsewhere than on glibc there is nothing to do.
pub fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two integers and changes the allocator's own settings under the
    // allocator's own lock. It is called once, at the start of main. If it returns 0 (an unknown
    // setting), the default stays in force.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
    }
}
