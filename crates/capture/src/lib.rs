//! pagewalk-capture
