//! The CPU of a server, read often: [`crate::Monitor`] looks at each process, and at their memory.

use std::io;

use crate::agent::Remote;
use crate::cgroup::Group;
use crate::process::Tree;
use crate::sample::WatchTarget;

/// Reads the CPU of one target.
pub struct Meter(MeterKind);

enum MeterKind {
    /// Exact to the nanosecond (version 1) or microsecond (version 2).
    Group(Group),
    /// By the clock's ticks, usually 10 ms: many readings are right on average only.
    Tree(Tree),
    Remote(Box<Remote>),
    Parts(Vec<Meter>),
}

impl Meter {
    /// Opens a target; `None` if there is nothing to read.
    pub fn open(target: &WatchTarget) -> io::Result<Option<Self>> {
        Ok(match target {
            WatchTarget::Nothing => None,
            WatchTarget::Agent { address, token, pid } => {
                Some(Self(MeterKind::Remote(Box::new(Remote::connect(address, token, *pid)?))))
            }
            WatchTarget::Parts(parts) => {
                let parts = parts.iter().filter_map(|(_, part)| Self::open(part).transpose());
                let parts = parts.collect::<io::Result<Vec<_>>>()?;
                (!parts.is_empty()).then(|| Self(MeterKind::Parts(parts)))
            }
            WatchTarget::Local { cgroup: Some(path), .. } => Some(Self(MeterKind::Group(Group::open(path)?))),
            WatchTarget::Local { pid, cgroup: None, .. } => {
                pid.map(|pid| Self(MeterKind::Tree(Tree::new(pid))))
            }
        })
    }

    /// CPU seconds until now.
    pub fn cpu_s(&mut self) -> io::Result<f64> {
        match &mut self.0 {
            MeterKind::Group(group) => group.cpu().map(|(user, system)| user + system),
            MeterKind::Tree(tree) => tree.read_usage().map(|usage| usage.user_s + usage.system_s),
            MeterKind::Remote(remote) => remote.sample().map(|sample| sample.cpu_s()),
            MeterKind::Parts(parts) => parts.iter_mut().map(Self::cpu_s).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_and_a_group_are_read() {
        let target = WatchTarget::Local { pid: Some(std::process::id()), cgroup: None, data: None };
        let mut meter = Meter::open(&target).unwrap().unwrap();
        let before = meter.cpu_s().unwrap();
        let own = crate::own::now().user_s;
        while crate::own::now().user_s - own < 0.1 {}
        assert!(meter.cpu_s().unwrap() > before);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cpu.stat"), "user_usec 2000000\nsystem_usec 500000\n").unwrap();
        let target = WatchTarget::Local { pid: None, cgroup: Some(dir.path().to_owned()), data: None };
        assert_eq!(Meter::open(&target).unwrap().unwrap().cpu_s().unwrap(), 2.5);
        let parts = [("access 1", target.clone()), ("access 2", target), ("store 1", WatchTarget::Nothing)];
        let parts = parts.map(|(name, part)| (name.to_owned(), part)).to_vec();
        assert_eq!(Meter::open(&WatchTarget::Parts(parts)).unwrap().unwrap().cpu_s().unwrap(), 5.0);
        assert!(Meter::open(&WatchTarget::Nothing).unwrap().is_none());
    }
}
