//! pagewalk-workload
