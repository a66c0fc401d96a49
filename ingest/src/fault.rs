//! Why a whole request was refused: a stable code and a reason. No statuses here.

use braid_shared::catalog::CatalogError;
use braid_shared::codes;

use crate::body::BodyFault;

/// A fault of a request, not of one of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Stable code (docs/ERRORS.md).
    pub(crate) code: &'static str,
    /// What is wrong, for a person.
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Fault {
        Fault { code, detail: detail.into() }
    }
}

impl From<BodyFault> for Fault {
    fn from(fault: BodyFault) -> Fault {
        Fault { code: fault.code, detail: fault.detail }
    }
}

impl From<Fault> for BodyFault {
    fn from(fault: Fault) -> BodyFault {
        BodyFault { code: fault.code, detail: fault.detail }
    }
}

impl From<CatalogError> for Fault {
    /// Whatever the catalog can't do for a write now, it may do for the same write sent again.
    fn from(error: CatalogError) -> Fault {
        let code = match error {
            CatalogError::NamespaceNotFound(_) => codes::NAMESPACE_NOT_FOUND,
            _ => codes::LAYOUT_STALE,
        };
        Fault::new(code, error.to_string())
    }
}
