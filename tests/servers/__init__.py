"""Real servers on loopback for the tests of the engines: a Kafka broker and an S3 server, from package registries."""
