"""The contest's problems in the forms that other libraries want."""
