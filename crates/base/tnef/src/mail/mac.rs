//! MacBinary: a file of classic Mac OS as one stream of bytes. A header of 128 bytes has its name
//! and the lengths of its two forks. The data fork follows, and the resource fork after it, each
//! padded to 128 bytes.

use crate::charset;

/// The type of such a file.
pub(super) const MACBINARY: &str = "application/x-macbinary";

/// The code page of its name: Mac Roman.
const MAC_ROMAN: u32 = 10_000;

/// The parts of a MacBinary file that a reader needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MacBinary<'m> {
    name: &'m [u8],
    /// The bytes that other systems have as the file.
    pub data: &'m [u8],
    /// Whether the file has more than its data: icons, settings, or a program.
    pub has_resources: bool,
}

impl<'m> MacBinary<'m> {
    /// `None` if the bytes are no such file.
    pub fn of(bytes: &'m [u8]) -> Option<Self> {
        const HEADER: usize = 128;
        let (header, forks) = bytes.split_at_checked(HEADER)?;
        let at = |place: usize| header.get(place).copied().unwrap_or_default();
        let len = |place: usize| -> Option<usize> {
            let bytes = header.get(place..)?.first_chunk::<4>()?;
            usize::try_from(u32::from_be_bytes(*bytes)).ok()
        };
        let name_len = usize::from(at(1));
        let (data_len, resources_len) = (len(83)?, len(87)?);
        let is_header = at(0) == 0 && at(74) == 0 && at(82) == 0 && (1..=63).contains(&name_len);
        let resources_at = data_len.checked_next_multiple_of(HEADER)?;
        let end = match resources_len {
            0 => data_len,
            _ => resources_at.checked_add(resources_len)?,
        };
        // Padding at the end may be missing. More than that is a comment or another kind of file.
        let fits = (end..=end.checked_next_multiple_of(HEADER)?).contains(&forks.len());
        // A second header would come before the data.
        let has_second_header = (at(120), at(121)) != (0, 0);
        if !is_header || has_second_header || !fits {
            return None;
        }
        let (name, data) = (header.get(2..2 + name_len)?, forks.get(..data_len)?);
        Some(Self { name, data, has_resources: resources_len > 0 })
    }

    /// The name that its header has.
    pub fn name(&self) -> String {
        charset::decode(MAC_ROMAN, self.name).into_owned()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file with these forks.
    pub fn file(name: &str, data: &[u8], resources: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 128];
        bytes[1] = name.len() as u8;
        bytes[2..2 + name.len()].copy_from_slice(name.as_bytes());
        bytes[65..73].copy_from_slice(b"TEXTttxt");
        bytes[83..87].copy_from_slice(&(data.len() as u32).to_be_bytes());
        bytes[87..91].copy_from_slice(&(resources.len() as u32).to_be_bytes());
        for fork in [data, resources] {
            bytes.extend(fork);
            bytes.resize(bytes.len().next_multiple_of(128), 0);
        }
        bytes
    }

    #[test]
    fn a_file_is_read_or_refused() {
        let plain = file("Read me", b"data", b"");
        let read = MacBinary::of(&plain).expect("a file");
        assert_eq!((read.name().as_str(), read.data, read.has_resources), ("Read me", &b"data"[..], false));
        assert!(MacBinary::of(&plain[..132]).is_some_and(|read| read.data == b"data"));
        assert!(MacBinary::of(&file("x", b"", b"icon")).is_some_and(|read| read.has_resources));
        assert!(MacBinary::of(&file("x", &[7; 300], b"icon")).is_some_and(|read| read.data == [7; 300]));
        for (place, byte) in
            [(0, 1), (1, 0), (1, 64), (74, 1), (82, 1), (83, 0xFF), (85, 1), (87, 0xFF), (121, 9)]
        {
            let mut other = plain.clone();
            other[place] = byte;
            assert_eq!(MacBinary::of(&other), None, "{place}");
        }
        assert_eq!(MacBinary::of(&[plain.as_slice(), b"more"].concat()), None);
        for len in [0, 127, 131] {
            assert_eq!(MacBinary::of(&plain[..len]), None, "{len}");
        }
    }
}
