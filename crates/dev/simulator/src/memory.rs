//! How this process has its memory.

/// The least size of a piece of memory with its own mapping: less than what LMDB wants at each
/// opening.
const MAPPED_FROM: libc::c_int = 1 << 20;
/// Free memory that stays with the process: a seed's images and files.
const KEPT: libc::c_int = 256 << 20;

/// LMDB allocates 2 MiB of zeroes at each opening and uses the first few pages. As a mapping they
/// cost nothing. Where libc has learnt to reuse the freed 2 MiB it fills them with zeroes: an
/// eighth of all that a state costs.
///
/// Called before there are threads.
pub(crate) fn keep_zeroes_cheap() {
    #[cfg(target_env = "gnu")]
    for (what, value) in [(libc::M_MMAP_THRESHOLD, MAPPED_FROM), (libc::M_TRIM_THRESHOLD, KEPT)] {
        // SAFETY: mallopt takes two integers and changes the allocator's own settings. It is called
        // at the start of main, so no other thread uses the allocator (mallopt(3) wants that). If
        // it is refused, nothing changes.
        unsafe { libc::mallopt(what, value) };
    }
}
