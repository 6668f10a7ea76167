//! Why bytes are not TNEF that can be read, and why a model cannot be written.

/// The reason why a TNEF stream, or something in it, cannot be used. The text is for the log: it
/// names the fault and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The first four bytes are not TNEF's signature.
    #[error("it does not begin with the signature of TNEF")]
    Signature,
    /// A length or a count goes beyond the end of what holds it.
    #[error("{what} at byte {at} ends beyond its container")]
    Truncated {
        /// The structure that was being read.
        what: &'static str,
        /// The position, from the start of its stream.
        at: usize,
    },
    /// The sum over an attribute's bytes differs from the stored one.
    #[error("the checksum of attribute {id:#010x} is wrong")]
    Checksum {
        /// The attribute.
        id: u32,
    },
    /// Neither a message nor an attachment has such an attribute.
    #[error("the attribute at byte {at} has level {level}; only 1 and 2 exist")]
    Level {
        /// The level that the attribute has.
        level: u8,
        /// The position, from the start of its stream.
        at: usize,
    },
    /// A property's type is none of those that MS-OXCDATA §2.11.1 lists.
    #[error("property {id:#06x} has the unknown type {kind:#06x}")]
    Type {
        /// The property.
        id: u16,
        /// The number of the type.
        kind: u16,
    },
    /// The message has more values than is allowed.
    #[error("it has over {limit} properties and values")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Compressed RTF: neither of its two forms.
    #[error("its RTF has the unknown compression {0:#010x}")]
    Compression(u32),
    /// Compressed RTF: the CRC is another than the one in its header.
    #[error("the CRC of its compressed RTF is wrong")]
    Crc,
    /// Compressed RTF, in either form: its text has another length than its header says.
    #[error("its compressed RTF has {len} bytes of text, and its header says {said}")]
    Length {
        /// The length of the text.
        len: usize,
        /// The length in the header.
        said: usize,
    },
    /// Text would take more than a message of this size is allowed.
    #[error("its text expands to over {limit} bytes")]
    Expands {
        /// The limit.
        limit: usize,
    },
    /// RTF groups are nested too deep.
    #[error("its RTF nests over {limit} groups")]
    Groups {
        /// The limit.
        limit: usize,
    },
    /// RTF ends before its groups do: it was cut.
    #[error("its RTF ends within {groups} groups")]
    Unclosed {
        /// The groups that are open.
        groups: usize,
    },
    /// Messages are nested too deep in one another.
    #[error("messages inside it are nested over {limit} deep")]
    Depth {
        /// The limit.
        limit: usize,
    },
    /// The message has more TNEF parts than are converted.
    #[error("the message has over {limit} TNEF parts")]
    Parts {
        /// The limit.
        limit: usize,
    },
    /// Each new boundary would begin with one of the message's own multiparts.
    #[error("its multiparts leave no boundary for new ones")]
    Boundaries,
    /// With fields out of its properties, the header would be over the bounds for mail that comes
    /// in. Code that reads headers relies on them.
    #[error("its header would be over the bounds for mail that comes in")]
    Header,
    /// The message has no frame, or one that does not fit the rest of it.
    #[error("it has no frame that matches the rest of the message")]
    Frame,
    /// The message is a report, a task or similar, and has neither text nor files.
    #[error("its class is {class:?}, and it has nothing that mail can show")]
    Empty {
        /// The message class.
        class: String,
    },
    /// RTF has pictures that mail cannot show, as metafiles are. The rest is converted.
    #[error("{count} pictures of its RTF are not shown: they are no PNG and no JPEG, or too many")]
    Pictures {
        /// The number of pictures that are not shown.
        count: usize,
    },
    /// The transfer encoding of the part that holds it is unknown.
    #[error("the part has an unknown transfer encoding")]
    TransferEncoding,
}

/// The reason why a model cannot be written as TNEF.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A property from 0x8000 on must have a name, and no other may have one.
    #[error(
        "property {0:#06x}: a property from 0x8000 on must have a name, and no other property may have one"
    )]
    Name(u16),
    /// A value of several has another type than its list.
    #[error("property {0:#06x}: all values of a list must have the list's type")]
    Mixed(u16),
    /// An attribute that the model has a field for.
    #[error("attribute {0:#010x} must be set through its field in the model")]
    Structural(u32),
    /// A length is over 4 GiB.
    #[error("a length does not fit into 32 bits")]
    TooLong,
}
