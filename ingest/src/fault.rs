//! Why a request or a row was refused: a stable code and a reason. No statuses here.

use braid_shared::catalog::CatalogError;
use braid_shared::codes;
use braid_shared::model::RowFault;

/// A fault of a request, or of a row whose place in the request its finder does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Fault {
    /// Stable code (docs/ERRORS.md).
    pub code: &'static str,
    /// What is wrong, for a person.
    pub detail: String,
}

impl Fault {
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Fault {
        Fault { code, detail: detail.into() }
    }

    /// The fault as that of the row at this place.
    pub(crate) fn of_row(self, index: u32, line: u32) -> RowFault {
        RowFault { index, line, code: self.code, detail: self.detail }
    }
}

impl From<CatalogError> for Fault {
    /// Whatever the catalog can't do for a write now, it may do for the same write sent again. That
    /// includes a time that it finds too far ahead: the rows' times were checked before, so the
    /// clock was set back meanwhile.
    fn from(error: CatalogError) -> Fault {
        let code = match error {
            CatalogError::NamespaceNotFound(_) => codes::NAMESPACE_NOT_FOUND,
            _ => codes::LAYOUT_STALE,
        };
        Fault::new(code, error.to_string())
    }
}
