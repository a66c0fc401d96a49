//! Strict query strings: a parameter that is unknown, misspelt or given twice is an error that
//! names it, never ignored.

use std::borrow::Cow;

/// The parameters of one request.
#[derive(Debug)]
pub struct Params<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// What is wrong with a query string; says which parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParamError(pub String);

impl<'a> Params<'a> {
    /// Reads a raw query string. Every name must be in `once` or in `repeatable`; those in `once`
    /// may be given once.
    pub fn parse(query: &'a str, once: &[&str], repeatable: &[&str]) -> Result<Params<'a>, ParamError> {
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name.contains('\u{FFFD}') || value.contains('\u{FFFD}') {
                return Err(ParamError(format!("parameter {name} is not UTF-8")));
            }
            if !once.contains(&&*name) && !repeatable.contains(&&*name) {
                let known = [once, repeatable].concat().join(", ");
                return Err(ParamError(format!("unknown parameter {name}; known here: {known}")));
            }
            if once.contains(&&*name) && pairs.iter().any(|(other, _)| *other == name) {
                return Err(ParamError(format!("parameter {name} is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Params { pairs })
    }

    /// The value of a parameter that may be given once.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a parameter, in order.
    pub fn all<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s str> {
        self.pairs.iter().filter(move |(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// A parameter's value parsed; the error names the parameter.
    pub fn parsed<T>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, ParamError> {
        self.get(name).map(|value| parse(value).map_err(|why| ParamError(format!("parameter {name}: {why}")))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_parameter_is_named() {
        let error = Params::parse("key=a&limt=3", &["key", "limit"], &[]).unwrap_err();
        assert!(error.0.contains("limt"), "{error}");
    }

    #[test]
    fn a_parameter_given_twice_is_refused_unless_it_may_repeat() {
        assert!(Params::parse("key=a&key=b", &["key"], &[]).is_err());
        let params = Params::parse("where=a:b&where=c:d", &[], &["where"]).unwrap();
        assert_eq!(params.all("where").collect::<Vec<_>>(), ["a:b", "c:d"]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        assert!(Params::parse("key=%ff", &["key"], &[]).is_err());
    }
}
