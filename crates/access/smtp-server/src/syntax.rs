//! The faults of a line, in words for the reply.

/// The reason why a line is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// Not text, or with bare CR, bare LF or NUL in it.
    #[error("a command is a line of UTF-8 that ends with CR LF")]
    Line,
    /// No such verb.
    #[error("command not recognized")]
    Verb,
    /// The argument is missing, superfluous or malformed.
    #[error("syntax: {0}")]
    Argument(&'static str),
    /// The address is malformed.
    #[error("bad address: {0}")]
    Path(&'static str),
    /// A parameter nobody offered.
    #[error("parameter not recognized")]
    Parameter,
    /// A known parameter with a value it cannot have, or given twice.
    #[error("bad parameter: {0}")]
    ParameterValue(&'static str),
}
