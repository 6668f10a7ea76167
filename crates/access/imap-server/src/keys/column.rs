//! A value for each of some messages, found by UID.

/// A value for each of some messages, by UID.
#[derive(Clone, Debug)]
pub(crate) struct Column<T> {
    uids: Vec<u32>,
    values: Vec<T>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { uids: Vec::new(), values: Vec::new() }
    }
}

impl<T: Copy> Column<T> {
    /// The values of these UIDs, which ascend.
    pub(crate) fn of<'c>(&'c self, uids: &'c [u32]) -> impl Iterator<Item = Option<T>> + 'c {
        let mut at = 0;
        uids.iter().map(move |uid| {
            if self.uids.get(at) != Some(uid) {
                at += self.uids[at..].partition_point(|other| other < uid);
            }
            let is_here = self.uids.get(at) == Some(uid);
            let value = is_here.then(|| self.values[at]);
            at += usize::from(is_here);
            value
        })
    }

    /// Adds values of messages that have none, their UIDs ascending.
    pub(crate) fn add(&mut self, uids: &[u32], values: &[T]) {
        debug_assert_eq!(uids.len(), values.len(), "a value for each message");
        if uids.is_empty() {
            return;
        }
        if self.uids.last() < uids.first() {
            self.uids.extend_from_slice(uids);
            self.values.extend_from_slice(values);
            return;
        }
        let mut all = Self { uids: Vec::new(), values: Vec::new() };
        all.uids.reserve(self.uids.len() + uids.len());
        all.values.reserve(self.uids.len() + uids.len());
        let mut old = self.uids.iter().copied().zip(self.values.iter().copied()).peekable();
        for (uid, value) in uids.iter().copied().zip(values.iter().copied()) {
            while let Some((uid, value)) = old.next_if(|(other, _)| *other < uid) {
                all.push(uid, value);
            }
            all.push(uid, value);
        }
        old.for_each(|(uid, value)| all.push(uid, value));
        *self = all;
    }

    fn push(&mut self, uid: u32, value: T) {
        self.uids.push(uid);
        self.values.push(value);
    }

    /// The number of its messages.
    pub(super) fn len(&self) -> usize {
        self.uids.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.uids.capacity() * 4 + self.values.capacity() * size_of::<T>()
    }
}
