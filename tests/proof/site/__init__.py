"""What a site costs against a lab: databases of both on one cluster, measured in turn."""
