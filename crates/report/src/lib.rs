//! pagewalk-report
