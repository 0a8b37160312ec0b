! ranks: 2
! Data of several types in one packed message.
      PROGRAM PACKS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, POS, N, STAT(MPI_STATUS_SIZE), LEN, K(3), I
      CHARACTER BUF(200)
      CHARACTER*6 NAME
      DOUBLE PRECISION X(2)
      LOGICAL L
      COMPLEX Z
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      IF (ME .EQ. 0) THEN
         POS = 0
         N = 3
         CALL MPI_PACK(N, 1, MPI_INTEGER, BUF, 200, POS,
     &                 MPI_COMM_WORLD, IERR)
         DO 10 I = 1, 3
            K(I) = 7*I
   10    CONTINUE
         CALL MPI_PACK(K, 3, MPI_INTEGER, BUF, 200, POS,
     &                 MPI_COMM_WORLD, IERR)
         NAME = 'abc de'
         CALL MPI_PACK(NAME, 6, MPI_CHARACTER, BUF, 200, POS,
     &                 MPI_COMM_WORLD, IERR)
         X(1) = 1.5D0
         X(2) = -2.25D0
         CALL MPI_PACK(X, 2, MPI_DOUBLE_PRECISION, BUF, 200, POS,
     &                 MPI_COMM_WORLD, IERR)
         CALL MPI_PACK(.TRUE., 1, MPI_LOGICAL, BUF, 200, POS,
     &                 MPI_COMM_WORLD, IERR)
         Z = (3.0, -4.0)
         CALL MPI_PACK(Z, 1, MPI_COMPLEX, BUF, 200, POS,
     &                 MPI_COMM_WORLD, IERR)
         IF (POS .LT. 4+12+6+16+4+8) STOP 1
         CALL MPI_SEND(BUF, POS, MPI_PACKED, 1, 1, MPI_COMM_WORLD,
     &                 IERR)
      ELSE
         CALL MPI_RECV(BUF, 200, MPI_PACKED, 0, 1, MPI_COMM_WORLD,
     &                 STAT, IERR)
         CALL MPI_GET_COUNT(STAT, MPI_PACKED, LEN, IERR)
         POS = 0
         CALL MPI_UNPACK(BUF, LEN, POS, N, 1, MPI_INTEGER,
     &                   MPI_COMM_WORLD, IERR)
         CALL MPI_UNPACK(BUF, LEN, POS, K, N, MPI_INTEGER,
     &                   MPI_COMM_WORLD, IERR)
         CALL MPI_UNPACK(BUF, LEN, POS, NAME, 6, MPI_CHARACTER,
     &                   MPI_COMM_WORLD, IERR)
         CALL MPI_UNPACK(BUF, LEN, POS, X, 2, MPI_DOUBLE_PRECISION,
     &                   MPI_COMM_WORLD, IERR)
         L = .FALSE.
         CALL MPI_UNPACK(BUF, LEN, POS, L, 1, MPI_LOGICAL,
     &                   MPI_COMM_WORLD, IERR)
         CALL MPI_UNPACK(BUF, LEN, POS, Z, 1, MPI_COMPLEX,
     &                   MPI_COMM_WORLD, IERR)
         IF (POS .NE. LEN) STOP 2
         IF (N .NE. 3 .OR. K(1) .NE. 7 .OR. K(3) .NE. 21) STOP 3
         IF (NAME .NE. 'abc de') STOP 4
         IF (X(1) .NE. 1.5D0 .OR. X(2) .NE. -2.25D0) STOP 5
         IF (.NOT. L) STOP 6
         IF (Z .NE. (3.0, -4.0)) STOP 7
      END IF
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
