"""What a user creates: MySQL and MariaDB databases on volumes."""
