//! Settings of a variant behind its mechanism's trait.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The settings of a variant, known by what its mechanism's trait `D` asks of them.
///
/// The settings' `Debug` is derived and says everything that a machine file can set: two designs are equal if it prints them
/// alike.
pub struct Design<D: ?Sized>(Arc<D>);

impl<D: ?Sized> Design<D> {
    /// Wraps the settings of a variant.
    pub fn of(settings: Arc<D>) -> Self {
        Self(settings)
    }
}

/// Settings that can be told apart by their type.
pub trait Settings: fmt::Debug + Send + Sync + 'static {
    /// Returns the settings as a value of any type.
    fn as_any(&self) -> &dyn Any;
}

impl<T: Any + fmt::Debug + Send + Sync> Settings for T {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<D: ?Sized + Settings> Design<D> {
    /// Returns the settings, if they are of this type.
    pub fn settings<T: Any>(&self) -> Option<&T> {
        (*self.0).as_any().downcast_ref()
    }
}

/// Makes designs of all settings that implement a mechanism's trait.
macro_rules! from_settings {
    ($Trait:ident) => {
        impl<D: $Trait> From<D> for $crate::spec::design::Design<dyn $Trait> {
            fn from(settings: D) -> Self {
                Self::of(std::sync::Arc::new(settings))
            }
        }
    };
}

pub(super) use from_settings;

impl<D: ?Sized> Deref for Design<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.0
    }
}

impl<D: ?Sized> Clone for Design<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: ?Sized + fmt::Debug> fmt::Debug for Design<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<D: ?Sized + fmt::Debug> PartialEq for Design<D> {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}
