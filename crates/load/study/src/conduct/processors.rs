//! Processors of their own for the servers and for the instrument.
//!
//! On a machine that both share, each slows the other down. With `--server-cpus N` servers keep to
//! the first N processors, and the instrument to the others.

use posthaste_load_results::RunResult;

/// Keeps this process, and the threads that it starts from now on, to the processors from `first`
/// to the last of `all`.
///
/// # Errors
/// No processor is left for the instrument, or the system refuses.
pub(super) fn keep_to_the_last(first: u32, all: u32) -> Result<(), String> {
    if first >= all {
        return Err(format!(
            "--server-cpus {first}: this machine has {all} processors, and the instrument needs one of them"
        ));
    }
    // SAFETY: a set of bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in (first..all).filter(|cpu| *cpu < libc::CPU_SETSIZE as u32) {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: the set is valid for its size, and is only read.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(format!("--server-cpus: {}", std::io::Error::last_os_error())),
    }
}

/// Makes the CPU of a server that was kept to some processors a share of these.
pub(super) fn of_its_own(run: &mut RunResult, cpus: Option<u32>) {
    let all = run.machine.cpus;
    if let (Some(server), Some(own)) = (&mut run.server, cpus.filter(|own| *own > 0 && *own < all)) {
        server.cpu_percent *= f64::from(all) / f64::from(own);
    }
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::Machine;

    use super::*;

    #[test]
    fn cpu_is_of_the_processors_that_the_server_may_use() {
        let percent = |cpus| {
            let mut run = crate::analysis::sample::run(1.0, 10);
            run.machine = Machine { cpus: 4, ..Machine::default() };
            run.server.as_mut().unwrap().cpu_percent = 20.0;
            of_its_own(&mut run, cpus);
            run.server.unwrap().cpu_percent
        };
        assert_eq!((percent(None), percent(Some(1)), percent(Some(4))), (20.0, 80.0, 20.0));
        assert_eq!((percent(Some(0)), percent(Some(8))), (20.0, 20.0));
    }

    #[test]
    fn a_processor_is_left_for_the_instrument() {
        assert!(keep_to_the_last(2, 2).unwrap_err().contains("needs one"));
    }
}
