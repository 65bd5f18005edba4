//! Which image: its pool, its namespace, its name.

use std::fmt;

/// An image as `POOL/IMAGE` or `POOL/NAMESPACE/IMAGE` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// The pool's name.
    pub pool: String,
    /// The namespace in the pool; None for the default one.
    pub namespace: Option<String>,
    /// The image's name.
    pub image: String,
}

/// Read `POOL/IMAGE` or `POOL/NAMESPACE/IMAGE`.
///
/// # Errors
/// What to write instead.
pub fn parse_image(text: &str) -> Result<ImageName, String> {
    let parts: Vec<&str> = text.split('/').collect();
    if parts.iter().any(|part| part.is_empty()) || text.contains('@') {
        return Err("write POOL/IMAGE or POOL/NAMESPACE/IMAGE".to_owned());
    }
    let owned = |part: &&str| (*part).to_owned();
    match parts.as_slice() {
        [pool, image] => Ok(ImageName { pool: owned(pool), namespace: None, image: owned(image) }),
        [pool, namespace, image] => Ok(ImageName {
            pool: owned(pool),
            namespace: Some(owned(namespace)),
            image: owned(image),
        }),
        _ => Err("write POOL/IMAGE or POOL/NAMESPACE/IMAGE".to_owned()),
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{}/{namespace}/{}", self.pool, self.image),
            None => write!(formatter, "{}/{}", self.pool, self.image),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_again() {
        for text in ["p/i", "p/n/i"] {
            assert_eq!(parse_image(text).map(|name| name.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "i", "p/", "/i", "p//i", "p/n/i/x", "p/i@s"] {
            assert!(parse_image(text).is_err(), "{text}");
        }
    }
}
