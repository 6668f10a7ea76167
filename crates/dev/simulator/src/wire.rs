//! Operations as bytes, from a process that may be killed to the process that keeps the log. Files
//! are named by device and inode, which both see.

use posthaste_store::octets::{Octets, put_counted, put_varint};

use crate::op::{Data, FileId, Node, Op};

fn put_node(out: &mut Vec<u8>, ids: &[FileId], node: Node) {
    let (device, inode) = ids[node as usize];
    put_varint(out, device);
    put_varint(out, inode);
}

fn put_name(out: &mut Vec<u8>, ids: &[FileId], dir: Node, name: &str) {
    put_node(out, ids, dir);
    put_counted(out, name.as_bytes());
}

/// The bytes of an operation.
pub(crate) fn op_bytes(op: &Op, ids: &[FileId]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut begin = |kind: u8| out.push(kind);
    match op {
        Op::Create { dir, name, node }
        | Op::MakeDirectory { dir, name, node }
        | Op::Link { dir, name, node } => {
            begin(match op {
                Op::Create { .. } => 1,
                Op::MakeDirectory { .. } => 2,
                _ => 3,
            });
            put_name(&mut out, ids, *dir, name);
            put_node(&mut out, ids, *node);
        }
        Op::Rename { from, to } | Op::Exchange { one: from, other: to } => {
            begin(if matches!(op, Op::Rename { .. }) { 4 } else { 12 });
            put_name(&mut out, ids, from.0, &from.1);
            put_name(&mut out, ids, to.0, &to.1);
        }
        Op::Remove { dir, name } => {
            begin(5);
            put_name(&mut out, ids, *dir, name);
        }
        Op::Write { node, at, data, durable } => {
            begin(if *durable { 7 } else { 6 });
            put_node(&mut out, ids, *node);
            put_varint(&mut out, *at);
            match data {
                Data::Zeroes(n) => {
                    out.push(0);
                    put_varint(&mut out, *n as u64);
                }
                Data::Bytes(bytes) => {
                    out.push(1);
                    put_counted(&mut out, bytes);
                }
            }
        }
        Op::Resize { node, len } => {
            begin(8);
            put_node(&mut out, ids, *node);
            put_varint(&mut out, *len);
        }
        Op::Sync { node } | Op::SyncFailed { node } => {
            begin(if matches!(op, Op::Sync { .. }) { 9 } else { 10 });
            put_node(&mut out, ids, *node);
        }
        Op::Failed(_) => begin(11),
    }
    out
}

/// The inverse of [`op_bytes`]; `number` gives a file its node.
pub(crate) fn op_from(bytes: &[u8], mut number: impl FnMut(FileId) -> Node) -> Option<Op> {
    let mut read = Octets(bytes);
    let kind = read.u8()?;
    let mut node = |read: &mut Octets<'_>| Some(number((read.varint()?, read.varint()?)));
    let name = |read: &mut Octets<'_>| read.text().map(str::to_owned);
    Some(match kind {
        1 => Op::Create { dir: node(&mut read)?, name: name(&mut read)?, node: node(&mut read)? },
        2 => Op::MakeDirectory { dir: node(&mut read)?, name: name(&mut read)?, node: node(&mut read)? },
        3 => Op::Link { dir: node(&mut read)?, name: name(&mut read)?, node: node(&mut read)? },
        4 | 12 => {
            let from = (node(&mut read)?, name(&mut read)?);
            let to = (node(&mut read)?, name(&mut read)?);
            if kind == 4 { Op::Rename { from, to } } else { Op::Exchange { one: from, other: to } }
        }
        5 => Op::Remove { dir: node(&mut read)?, name: name(&mut read)? },
        6 | 7 => {
            let (node, at) = (node(&mut read)?, read.varint()?);
            let data = match read.u8()? {
                0 => Data::Zeroes(read.varint()? as usize),
                _ => Data::Bytes(read.counted()?.into()),
            };
            Op::Write { node, at, data, durable: kind == 7 }
        }
        8 => Op::Resize { node: node(&mut read)?, len: read.varint()? },
        9 => Op::Sync { node: node(&mut read)? },
        10 => Op::SyncFailed { node: node(&mut read)? },
        11 => Op::Failed("in another process"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_their_bytes() {
        let ids = [(1, 10), (1, 300), (1, 70_000)];
        let ops = [
            Op::Create { dir: 0, name: "a".into(), node: 1 },
            Op::MakeDirectory { dir: 0, name: "b".into(), node: 2 },
            Op::Link { dir: 2, name: "c".into(), node: 1 },
            Op::Rename { from: (0, "a".into()), to: (2, "d".into()) },
            Op::Exchange { one: (0, "a".into()), other: (2, "d".into()) },
            Op::Remove { dir: 0, name: "a".into() },
            Op::Write { node: 1, at: 7, data: Data::Bytes([1, 2][..].into()), durable: true },
            Op::Write { node: 1, at: 7, data: Data::Zeroes(9), durable: false },
            Op::Resize { node: 1, len: 1 << 40 },
            Op::Sync { node: 2 },
            Op::SyncFailed { node: 1 },
        ];
        for op in ops {
            let bytes = op_bytes(&op, &ids);
            let number = |id| ids.iter().position(|known| *known == id).unwrap_or(99) as Node;
            assert_eq!(format!("{:?}", op_from(&bytes, number)), format!("{:?}", Some(op)));
        }
    }
}
